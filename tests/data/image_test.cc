#include "dtune/data/image.h"

#include <algorithm>
#include <cstdlib>

#include "data/fixtures.h"
#include <doctest/doctest.h>
#include <png.h>
#include <zlib.h>

#include "dtune/base/error.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

Bytes first_pixel(const Bytes& file, int channels) {
  const Image image = decode_image(file, channels, "f");
  return {image.pixels.begin(), image.pixels.begin() + channels};
}

std::string decode_error(const Bytes& file) {
  return error_of([&] { decode_image(file, 3, "f.png"); }, "/");
}

// A gradient with some texture, so that its files are not tiny.
Image textured(int height, int width) {
  Image image{.height = height, .width = width, .channels = 3, .pixels = {}};
  for (int i = 0; i < height * width; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(i));
    image.pixels.push_back(static_cast<uint8_t>(i * i));
    image.pixels.push_back(static_cast<uint8_t>(i / width));
  }
  return image;
}

void put_32(Bytes& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) {
    bytes[at + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  }
}

}  // namespace

TEST_CASE("PNG pixels come back as they were written") {
  const Image colour = textured(7, 5);
  const Image decoded = decode_image(png_bytes(colour), 3, "f");
  CHECK(decoded.height == 7);
  CHECK(decoded.width == 5);
  CHECK(decoded.pixels == colour.pixels);
  const Image gray{
      .height = 1, .width = 3, .channels = 1, .pixels = {0, 100, 255}};
  CHECK(decode_image(png_bytes(gray), 1, "f").pixels == gray.pixels);
}

TEST_CASE("grey becomes colour by repeating, colour becomes grey by luma") {
  CHECK(first_pixel(png_bytes(flat_image(2, 2, {77})), 3) == Bytes{77, 77, 77});
  CHECK(first_pixel(png_bytes(flat_image(2, 2, {200, 100, 50})), 1) ==
        Bytes{124});  // 0.299 200 + 0.587 100 + 0.114 50
}

TEST_CASE("palettes, few bits, 16 bits and interlacing decode") {
  CHECK(first_pixel(raw_png_bytes({.width = 4,
                                   .depth = 2,
                                   .type = PNG_COLOR_TYPE_PALETTE,
                                   .rows = {0b10000000},
                                   .palette = {1, 2, 3, 4, 5, 6, 7, 8, 9}}),
                    3) == Bytes{7, 8, 9});
  CHECK(first_pixel(raw_png_bytes({.width = 8,
                                   .depth = 1,
                                   .type = PNG_COLOR_TYPE_GRAY,
                                   .rows = {0b10000000}}),
                    1) == Bytes{255});
  CHECK(first_pixel(raw_png_bytes({.depth = 16,
                                   .type = PNG_COLOR_TYPE_GRAY,
                                   .rows = {0x80, 0x80}}),
                    1) == Bytes{0x80});
  CHECK(first_pixel(raw_png_bytes({.height = 3,
                                   .width = 2,
                                   .type = PNG_COLOR_TYPE_GRAY,
                                   .rows = {5, 6, 7, 8, 9, 10},
                                   .interlaced = true}),
                    1) == Bytes{5});
}

TEST_CASE("what is transparent shows black behind it") {
  CHECK(first_pixel(raw_png_bytes({.type = PNG_COLOR_TYPE_RGB_ALPHA,
                                   .rows = {200, 100, 50, 0}}),
                    3) == Bytes{0, 0, 0});
  CHECK(first_pixel(raw_png_bytes({.type = PNG_COLOR_TYPE_RGB_ALPHA,
                                   .rows = {200, 100, 50, 255}}),
                    3) == Bytes{200, 100, 50});
  CHECK(first_pixel(raw_png_bytes({.type = PNG_COLOR_TYPE_GRAY_ALPHA,
                                   .rows = {200, 128}}),
                    1) == Bytes{100});
}

TEST_CASE("JPEG decodes within its loss, baseline or progressive") {
  for (const bool progressive : {false, true}) {
    const Bytes pixel = first_pixel(
        jpeg_bytes(flat_image(17, 9, {200, 100, 50}), 95, progressive), 3);
    CHECK(std::abs(pixel[0] - 200) <= 3);  // quantisation of colour
    CHECK(std::abs(pixel[1] - 100) <= 3);
    CHECK(std::abs(pixel[2] - 50) <= 3);
  }
  const Bytes gray = first_pixel(jpeg_bytes(flat_image(8, 8, {90})), 1);
  CHECK(std::abs(gray[0] - 90) <= 1);
}

TEST_CASE("a CMYK JPEG of Adobe's kind becomes RGB") {
  const Bytes pixel = first_pixel(cmyk_jpeg_bytes(8, 8, {255, 0, 0, 0}), 3);
  CHECK(pixel[0] <= 2);  // full cyan ink: no red
  CHECK(pixel[1] >= 253);
  CHECK(pixel[2] >= 253);
}

TEST_CASE("an image that does not decode says so") {
  const Bytes png = png_bytes(textured(20, 20));
  CHECK(decode_error({}) == "data: f.png: is empty (delete or replace it)");
  CHECK(decode_error(bytes_of("no image")) ==
        "data: f.png: is neither PNG nor JPEG (convert it, or give it another "
        "ending)");
  CHECK(decode_error(Bytes(png.begin(), png.begin() + 200)) ==
        "data: f.png: is a PNG that does not decode: read beyond end of data "
        "(replace or delete it)");
  Bytes altered = png;
  altered[60] ^= 0xff;
  CHECK(decode_error(altered).find(
            "data: f.png: is a PNG that does not decode: ") == 0);
  const Bytes jpeg = jpeg_bytes(textured(40, 40));
  CHECK(decode_error(Bytes(jpeg.begin(), jpeg.begin() + 900)) ==
        "data: f.png: is a JPEG that does not decode: Premature end of JPEG "
        "file (replace or delete it)");
  CHECK(decode_error(Bytes(jpeg.begin(), jpeg.begin() + 100))
            .find("data: f.png: is a JPEG that does not decode: ") == 0);
}

TEST_CASE("an image that claims an absurd size is refused at once") {
  Bytes png = png_bytes(flat_image(2, 2, {1}));
  put_32(png, 16, 60000);
  put_32(png, 20, 2000);
  const auto crc = static_cast<uint32_t>(crc32(0, png.data() + 12, 17));
  put_32(png, 29, crc);
  CHECK(decode_error(png).find(
            "data: f.png: is a PNG that claims 60000x2000 pixels in ") == 0);
  put_32(png, 20, 60000);
  put_32(png, 29, static_cast<uint32_t>(crc32(0, png.data() + 12, 17)));
  CHECK(decode_error(png) ==
        "data: f.png: is a PNG of 60000x60000 pixels; at most 134217728 are "
        "read");
  Bytes jpeg = jpeg_bytes(flat_image(8, 8, {1}));
  const Bytes frame = {0xff, 0xc0};
  const auto at =
      size_t(std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) -
             jpeg.begin());
  jpeg[at + 5] = 0x20;  // height 8200
  jpeg[at + 7] = 0x20;  // width 8200
  CHECK(decode_error(jpeg).find(
            "data: f.png: is a JPEG that claims 8200x8200 pixels in ") == 0);
}

TEST_CASE("resizing keeps a flat image flat and its size exact") {
  for (const auto& [height, width] :
       {std::pair{3, 50}, std::pair{50, 3}, std::pair{1, 1}, std::pair{9, 7}}) {
    const Image out =
        resize_image(flat_image(9, 7, {10, 20, 250}), height, width);
    CHECK(out.height == height);
    CHECK(out.width == width);
    CHECK(out.pixels == flat_image(height, width, {10, 20, 250}).pixels);
  }
}

TEST_CASE("shrinking weighs every source pixel, growing interpolates") {
  Image stripes{.height = 1, .width = 8, .channels = 1, .pixels = {}};
  for (int i = 0; i < 8; ++i) {
    stripes.pixels.push_back(i % 2 == 0 ? 0 : 200);
  }
  for (const uint8_t v : resize_image(stripes, 1, 2).pixels) {
    CHECK(std::abs(v - 100) <= 15);  // the filter's weights at the borders
  }
  const Image two{.height = 1, .width = 2, .channels = 1, .pixels = {0, 100}};
  CHECK(resize_image(two, 1, 4).pixels == Bytes{0, 25, 75, 100});
}
