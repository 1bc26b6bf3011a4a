#include "dtune/data/image.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

bool starts_with(std::span<const uint8_t> bytes,
                 std::initializer_list<uint8_t> magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin());
}

bool has_word(std::span<const uint8_t> bytes, size_t at,
              std::string_view word) {
  return bytes.size() >= at + word.size() &&
         std::equal(word.begin(), word.end(), bytes.begin() + long(at));
}

// Of a file that is no image that is read.
const char* what_it_is(std::span<const uint8_t> bytes) {
  if (has_word(bytes, 0, "GIF8")) return "a GIF, not PNG or JPEG";
  if (has_word(bytes, 0, "BM")) return "a BMP, not PNG or JPEG";
  if (has_word(bytes, 0, "RIFF") && has_word(bytes, 8, "WEBP")) {
    return "a WebP, not PNG or JPEG";
  }
  if (has_word(bytes, 0, "II*") || has_word(bytes, 0, {"MM\0*", 4})) {
    return "a TIFF, not PNG or JPEG";
  }
  return "neither PNG nor JPEG";
}

Image to_gray(const Image& image) {
  Image gray{.height = image.height,
             .width = image.width,
             .channels = 1,
             .pixels = {}};
  gray.pixels.resize(image.pixels.size() / 3);
  for (size_t i = 0; i < gray.pixels.size(); ++i) {
    const uint8_t* rgb = image.pixels.data() + 3 * i;
    gray.pixels[i] = static_cast<uint8_t>(
        (299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
  }
  return gray;
}

Image to_colour(const Image& image) {
  Image colour{.height = image.height,
               .width = image.width,
               .channels = 3,
               .pixels = {}};
  colour.pixels.resize(image.pixels.size() * 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    std::fill_n(colour.pixels.begin() + std::ptrdiff_t(3 * i), 3,
                image.pixels[i]);
  }
  return colour;
}

}  // namespace

Image decode_image(std::span<const uint8_t> bytes, int channels,
                   const std::filesystem::path& where) {
  DTUNE_CHECK(channels == 1 || channels == 3);
  Image image;
  if (starts_with(bytes, {0x89, 'P', 'N', 'G'})) {
    image = decode_png(bytes, where);
  } else if (starts_with(bytes, {0xff, 0xd8, 0xff})) {
    image = decode_jpeg(bytes, where);
  } else {
    fail_data(where, bytes.empty()
                         ? "is empty (delete or replace it)"
                         : fmt::format("is {} (convert it, or give it another "
                                       "ending)",
                                       what_it_is(bytes)));
  }
  return convert_channels(std::move(image), channels);
}

Image read_image_file(const std::filesystem::path& path, int channels) {
  constexpr uint64_t kMaxFile = uint64_t{1} << 30;
  const std::string bytes = read_file(path, kMaxFile);
  return decode_image(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, channels,
      path);
}

Image convert_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  return channels == 1 ? to_gray(image) : to_colour(image);
}

}  // namespace dtune
