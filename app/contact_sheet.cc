#include "app/contact_sheet.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "app/glyphs.h"

#include "dtune/base/utf8.h"
#include "dtune/report/text.h"

namespace dtune {
namespace {

constexpr int kLetter = kGlyphWidth + 1;  // with the space to the next one
constexpr int kLine = kGlyphHeight + 2;
constexpr int kGap = 6;         // between pictures
constexpr int kLeastSide = 84;  // of an enlarged picture: 14 letters
constexpr uint8_t kWhite = 255;
constexpr uint8_t kInk = 30;

uint8_t* pixel_at(Image& sheet, int y, int x) {
  return sheet.pixels.data() +
         (static_cast<size_t>(y) * static_cast<size_t>(sheet.width) +
          static_cast<size_t>(x)) *
             static_cast<size_t>(sheet.channels);
}

void draw_glyph(Image& sheet, int top, int left, const Glyph& glyph) {
  for (int x = 0; x < kGlyphWidth; ++x) {
    for (int y = 0; y < kGlyphHeight; ++y) {
      if ((glyph[static_cast<size_t>(x)] >> y & 1) == 0) continue;
      std::fill_n(pixel_at(sheet, top + y, left + x), sheet.channels, kInk);
    }
  }
}

// Of the text what fits into so many letters.
void draw_text(Image& sheet, int top, int left, int letters,
               std::string_view text) {
  while (!text.empty() && letters > 0) {
    const CodePoint point = next_code_point(text);
    const bool mark = display_width(text.substr(0, point.bytes)) == 0;
    text.remove_prefix(point.bytes);
    if (mark) continue;  // an accent of the letter before
    draw_glyph(sheet, top, left, glyph_of(point.value));
    left += kLetter;
    --letters;
  }
}

void draw_image(Image& sheet, int top, int left, const Image& image,
                int factor) {
  const auto channels = static_cast<size_t>(image.channels);
  for (int y = 0; y < image.height * factor; ++y) {
    uint8_t* out = pixel_at(sheet, top + y, left);
    const uint8_t* row =
        image.pixels.data() +
        static_cast<size_t>(y / factor * image.width) * channels;
    for (int x = 0; x < image.width * factor; ++x) {
      out = std::copy_n(row + static_cast<size_t>(x / factor) * channels,
                        channels, out);
    }
  }
}

}  // namespace

Image contact_sheet(std::span<const CaptionedImage> images) {
  const Image& first = images.front().image;
  const int factor = std::max(1, (kLeastSide + first.width - 1) / first.width);
  const int width = first.width * factor;
  const int height = first.height * factor;
  const auto lines = static_cast<int>(images.front().lines.size());
  const int cell_height = height + 2 + lines * kLine;
  const auto count = static_cast<int>(images.size());
  const int columns = static_cast<int>(std::ceil(std::sqrt(count)));
  const int rows = (count + columns - 1) / columns;
  Image sheet{.height = kGap + rows * (cell_height + kGap),
              .width = kGap + columns * (width + kGap),
              .channels = first.channels,
              .pixels = {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.height) *
                          static_cast<size_t>(sheet.width) *
                          static_cast<size_t>(sheet.channels),
                      kWhite);
  for (int i = 0; i < count; ++i) {
    const CaptionedImage& one = images[static_cast<size_t>(i)];
    const int top = kGap + i / columns * (cell_height + kGap);
    const int left = kGap + i % columns * (width + kGap);
    draw_image(sheet, top, left, one.image, factor);
    for (int line = 0; line < lines; ++line) {
      draw_text(sheet, top + height + 2 + line * kLine, left, width / kLetter,
                one.lines[static_cast<size_t>(line)]);
    }
  }
  return sheet;
}

}  // namespace dtune
