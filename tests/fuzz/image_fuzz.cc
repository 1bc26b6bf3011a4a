// PNG and JPEG: whatever the bytes, an image or an Error(data); then a resize.
#include <cstdint>

#include "dtune/base/error.h"
#include "dtune/data/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const int channels = size % 2 == 0 ? 1 : 3;
    const dtune::Image image =
        dtune::decode_image({data, size}, channels, "fuzz");
    DTUNE_CHECK(image.pixels.size() ==
                size_t(image.height) * size_t(image.width) * size_t(channels));
    const dtune::Image small = dtune::resize_image(image, 3, 4);
    DTUNE_CHECK(small.pixels.size() == size_t(12 * channels));
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) throw;
  }
  return 0;
}
