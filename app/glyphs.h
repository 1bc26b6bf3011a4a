// The 5x7 letters of character displays.
#pragma once

#include <array>
#include <cstdint>

namespace dtune {

inline constexpr int kGlyphWidth = 5;
inline constexpr int kGlyphHeight = 7;
using Glyph = std::array<uint8_t, kGlyphWidth>;  // columns; bit 0: the top row

// Of ASCII, and of Latin letters with accents, which are left out; '?' for all
// else.
const Glyph& glyph_of(char32_t character);

}  // namespace dtune
