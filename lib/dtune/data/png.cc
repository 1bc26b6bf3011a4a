#include <utility>

#include <fmt/format.h>
#include <png.h>

#include "dtune/base/error.h"
#include "dtune/data/image.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

// libpng's simplified interface: it catches its own longjmps.
class PngImage {
 public:
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { ::png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  png_image image{};
};

[[noreturn]] void fail_png(const std::filesystem::path& where,
                           const png_image& image) {
  fail_data(where, fmt::format("is a PNG that does not decode: {} (replace or "
                               "delete it)",
                               image.message));
}

void check_size(const png_image& image, size_t file_bytes,
                const std::filesystem::path& where) {
  const int64_t pixels = int64_t{image.width} * int64_t{image.height};
  if (image.width > kMaxImageSide || image.height > kMaxImageSide ||
      pixels > kMaxImagePixels) {
    fail_data(where,
              fmt::format("is a PNG of {}x{} pixels; at most {} are read",
                          image.width, image.height, kMaxImagePixels));
  }
  // A pixel takes at least a bit before compression.
  if (static_cast<uint64_t>(pixels) / 8 / kMaxDeflateRatio > file_bytes) {
    fail_data(where,
              fmt::format("is a PNG that claims {}x{} pixels in {} bytes "
                          "(damaged: replace or delete it)",
                          image.width, image.height, file_bytes));
  }
}

// Colours over black: v alpha / 255, rounded.
void drop_alpha(std::vector<uint8_t>& pixels, size_t colours) {
  size_t to = 0;
  for (size_t from = 0; from < pixels.size(); from += colours + 1) {
    const int alpha = pixels[from + colours];
    for (size_t c = 0; c < colours; ++c) {
      pixels[to++] =
          static_cast<uint8_t>((pixels[from + c] * alpha + 127) / 255);
    }
  }
  pixels.resize(to);
}

}  // namespace

Image decode_png(std::span<const uint8_t> bytes,
                 const std::filesystem::path& where) {
  PngImage png;
  if (::png_image_begin_read_from_memory(&png.image, bytes.data(),
                                         bytes.size()) == 0) {
    fail_png(where, png.image);
  }
  check_size(png.image, bytes.size(), where);
  const bool colour = (png.image.format & PNG_FORMAT_FLAG_COLOR) != 0;
  const bool alpha = (png.image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // no linear light unless said
  png.image.format = (colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) |
                     (alpha ? unsigned{PNG_FORMAT_FLAG_ALPHA} : 0U);
  Image image{.height = static_cast<int>(png.image.height),
              .width = static_cast<int>(png.image.width),
              .channels = colour ? 3 : 1,
              .pixels = {}};
  image.pixels.resize(PNG_IMAGE_SIZE(png.image));
  if (::png_image_finish_read(&png.image, nullptr, image.pixels.data(), 0,
                              nullptr) == 0) {
    fail_png(where, png.image);
  }
  if (alpha) drop_alpha(image.pixels, static_cast<size_t>(image.channels));
  return image;
}

std::vector<uint8_t> encode_png(const Image& image) {
  DTUNE_CHECK(image.channels == 1 || image.channels == 3);
  PngImage png;
  png.image.height = static_cast<png_uint_32>(image.height);
  png.image.width = static_cast<png_uint_32>(image.width);
  png.image.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_PNG_SIZE_MAX(png.image));
  png_alloc_size_t size = bytes.size();
  const int written = ::png_image_write_to_memory(
      &png.image, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr);
  DTUNE_CHECK(written != 0);
  bytes.resize(size);
  return bytes;
}

}  // namespace dtune
