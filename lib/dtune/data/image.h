// PNG and JPEG images decoded to bytes, converted to grey or colour, resized.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace dtune {

// pixels: [height, width, channels] uint8, rows top to bottom; channels is 1
// (grey) or 3 (red, green, blue; sRGB).
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<uint8_t> pixels;
};

// Decodes by content, not by name: palettes, 1 to 16 bits, transparency (over
// black), CMYK. `channels` 1 or 3 is what is wanted: grey is
// 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601). `where` stands in messages.
// Throws Error(data): neither PNG nor JPEG, damaged, truncated, larger than
// kMaxImagePixels or than its file can hold.
Image decode_image(std::span<const uint8_t> bytes, int channels,
                   const std::filesystem::path& where);

// The same of a file.
Image read_image_file(const std::filesystem::path& path, int channels);

// Grey to colour (three times the same) and back, as decode_image does it.
// REQUIRES: channels of both are 1 or 3, or equal.
Image convert_channels(Image image, int channels);

// To exactly `height` x `width` (the shape is not kept): a triangle filter,
// widened by the scale where it shrinks, so that every source pixel counts;
// bilinear where it grows. Integer weights: the same bits on every machine.
Image resize_image(const Image& image, int height, int width);

// A PNG of an image with 1 or 3 channels.
std::vector<uint8_t> encode_png(const Image& image);

// Used by decode_image; each gives 1 or 3 channels as the file has it.
Image decode_png(std::span<const uint8_t> bytes,
                 const std::filesystem::path& where);
Image decode_jpeg(std::span<const uint8_t> bytes,
                  const std::filesystem::path& where);

}  // namespace dtune
