// Model files: what they say of themselves is read, or refused as Error(data).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/study/model_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint64_t> aligned(size / 8 + 1);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto bytes = std::as_bytes(std::span(aligned)).first(size);
  try {
    const dtune::SafetensorsFile file(bytes, "input");
    const dtune::ModelMetadata said = dtune::read_model_metadata(file);
    const auto channels = static_cast<size_t>(said.input.channels);
    const bool sound =
        said.mean.size() == channels && said.deviation.size() == channels &&
        !said.class_names.empty() && said.threshold > 0 && said.threshold < 1;
    if (!sound) std::abort();
    const std::vector<double> equal(said.class_names.size(), 0.5);
    if (said.answer(equal) >= equal.size()) std::abort();
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) std::abort();
  }
  return 0;
}
