// NPZ archives, and the .npy header by itself, which random bytes rarely reach
// behind a zip archive's directory and check sums.
#include <cstdint>
#include <memory>

#include "data/load_images.h"

#include "dtune/base/error.h"
#include "dtune/data/npy.h"
#include "dtune/data/npz.h"

namespace {

void fuzz_header(std::span<const uint8_t> bytes) {
  try {
    const dtune::NpyHeader header = dtune::parse_npy_header(bytes, "fuzz");
    const size_t offset = dtune::npy_data_offset(bytes, "fuzz");
    if (header.value_bytes() > bytes.size() - offset) return;
    const auto values = bytes.subspan(offset, header.value_bytes());
    DTUNE_CHECK(dtune::npy_to_uint8(header, values, "fuzz").size() ==
                header.items);
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) throw;
  }
}

void fuzz_archive(std::span<const uint8_t> bytes) {
  try {
    dtune::SourceData data =
        dtune::open_npz(std::make_shared<dtune::ZipArchive>(bytes, "fuzz"));
    dtune::load_images(data);
    const dtune::ImageSet& train = data.train;
    DTUNE_CHECK(train.images.size() ==
                size_t(train.count()) * size_t(train.height) *
                    size_t(train.width) * size_t(train.channels));
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_archive({data, size});
  fuzz_header({data, size});
  return 0;
}
