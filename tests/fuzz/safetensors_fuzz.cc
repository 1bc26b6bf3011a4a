// The reader of safetensors: any bytes give a header that is true of them, or
// an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "dtune/base/error.h"
#include "dtune/base/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const dtune::SafetensorsHeader header =
        dtune::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    for (const auto& [name, entry] : header.tensors) {
      if (entry.end > size - header.data_begin) std::abort();
    }
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) std::abort();
  }
  return 0;
}
