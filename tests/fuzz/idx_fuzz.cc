// IDX files, plain or gzip: whatever the bytes, an array or an Error(data).
#include <cstdint>

#include "dtune/base/error.h"
#include "dtune/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int dimensions : {1, 3}) {
    try {
      const dtune::IdxArray array =
          dtune::parse_idx({data, size}, dimensions, "fuzz");
      uint64_t count = 1;
      for (const int64_t side : array.shape) count *= uint64_t(side);
      DTUNE_CHECK(count == array.values.size());
    } catch (const dtune::Error& error) {
      if (error.kind() != dtune::ErrorKind::data) throw;
    }
  }
  return 0;
}
