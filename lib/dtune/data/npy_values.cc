#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/data/npy.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

// The bytes of one number, the least significant one last.
uint64_t bits_at(const uint8_t* at, const NpyHeader& header) {
  const int n = header.item_bytes;
  uint64_t bits = 0;
  for (int i = 0; i < n; ++i) {
    const int from = header.big_endian ? i : n - 1 - i;
    bits = bits << 8 | at[from];
  }
  return bits;
}

// One value; an unsigned one past the range of int64 becomes its largest.
int64_t value_at(const uint8_t* at, const NpyHeader& header) {
  const int n = header.item_bytes;
  const uint64_t bits = bits_at(at, header);
  if (header.kind == 'i') {
    const int unused = 64 - 8 * n;
    return static_cast<int64_t>(bits << unused) >> unused;
  }
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(bits > kMax ? kMax : bits);
}

// IEEE 754 binary16: 1 sign bit, 5 of the exponent, 10 of the fraction.
double half(uint64_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 0x1f);
  const double fraction = static_cast<double>(bits & 0x3ff);
  double size = 0;
  if (exponent == 0x1f) {
    size = fraction > 0 ? std::numeric_limits<double>::quiet_NaN()
                        : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    size = std::ldexp(fraction, -24);
  } else {
    size = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits >> 15 & 1) != 0 ? -size : size;
}

double real_at(const uint8_t* at, const NpyHeader& header) {
  if (header.kind != 'f') return static_cast<double>(value_at(at, header));
  const uint64_t bits = bits_at(at, header);
  switch (header.item_bytes) {
    case 2:
      return half(bits);
    case 4:
      return double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
    default:
      return std::bit_cast<double>(bits);
  }
}

bool is_integer(const NpyHeader& header) {
  return header.kind == 'u' || header.kind == 'i' || header.kind == 'b';
}

[[noreturn]] void fail_type(const NpyHeader& header,
                            const std::filesystem::path& where,
                            const char* expected) {
  const bool plain = header.item_bytes == 1 || header.kind == 'S';
  const char* order = plain ? "|" : header.big_endian ? ">" : "<";
  const int size =
      header.kind == 'U' ? header.item_bytes / 4 : header.item_bytes;
  fail_data(where, fmt::format("holds values of type '{}{}{}'; {}", order,
                               header.kind, size, expected));
}

// Adds a character in UTF-8; false where Unicode has none of that number.
bool append_utf8(uint32_t c, std::string& text) {
  const auto add = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0 | c >> 6);
    add(0x80 | (c & 0x3f));
  } else {
    if (c < 0x10000) {
      add(0xe0 | c >> 12);
    } else {
      add(0xf0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3f));
    }
    add(0x80 | (c >> 6 & 0x3f));
    add(0x80 | (c & 0x3f));
  }
  return true;
}

// One word, without the zeros that fill it up.
std::string word_at(const uint8_t* at, const NpyHeader& header,
                    const std::filesystem::path& where) {
  std::string word;
  if (header.kind == 'S') {
    word.assign(reinterpret_cast<const char*>(at),
                static_cast<size_t>(header.item_bytes));
  } else {
    NpyHeader character = header;
    character.item_bytes = 4;
    for (int i = 0; i < header.item_bytes; i += 4) {
      if (!append_utf8(static_cast<uint32_t>(bits_at(at + i, character)),
                       word)) {
        fail_data(where, "holds a character that Unicode does not have");
      }
    }
  }
  while (!word.empty() && word.back() == '\0') word.pop_back();
  return word;
}

// Calls visit(offset) with the place in memory of each item, in C order.
template <typename Visit>
void for_each_item(const NpyHeader& header, Visit visit) {
  if (!header.fortran_order || header.shape.size() < 2) {
    for (uint64_t i = 0; i < header.items; ++i) visit(i);
    return;
  }
  std::vector<uint64_t> stride(header.shape.size(), 1);
  for (size_t d = 1; d < stride.size(); ++d) {
    stride[d] = stride[d - 1] * static_cast<uint64_t>(header.shape[d - 1]);
  }
  std::vector<int64_t> index(header.shape.size(), 0);
  uint64_t place = 0;
  for (uint64_t i = 0; i < header.items; ++i) {
    visit(place);
    for (size_t d = index.size(); d-- > 0;) {  // the last one turns fastest
      place += stride[d];
      if (++index[d] < header.shape[d]) break;
      place -= stride[d] * static_cast<uint64_t>(header.shape[d]);
      index[d] = 0;
    }
  }
}

template <typename Out>
std::vector<Out> convert(const NpyHeader& header, std::span<const uint8_t> raw,
                         const std::filesystem::path& where,
                         const char* type_remedy, const char* remedy) {
  DTUNE_CHECK(raw.size() == header.value_bytes());
  if (!is_integer(header)) fail_type(header, where, type_remedy);
  constexpr int64_t kLow = std::numeric_limits<Out>::min();
  constexpr int64_t kHigh = std::numeric_limits<Out>::max();
  std::vector<Out> values(header.items);
  size_t next = 0;
  for_each_item(header, [&](uint64_t place) {
    const int64_t value = value_at(
        raw.data() + place * static_cast<uint64_t>(header.item_bytes), header);
    if (value < kLow || value > kHigh) {
      fail_data(where, fmt::format("holds the value {}, outside {} to {} ({})",
                                   value, kLow, kHigh, remedy));
    }
    values[next++] = static_cast<Out>(value);
  });
  return values;
}

}  // namespace

std::vector<uint8_t> npy_to_uint8(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where) {
  return convert<uint8_t>(header, raw, where, "expected numbers",
                          "scale them to [0, 1] as float32, or to 0 .. 255");
}

std::vector<int32_t> npy_to_int32(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where) {
  const bool words = header.kind == 'U' || header.kind == 'S';
  return convert<int32_t>(
      header, raw, where,
      words ? "labels must be integers (convert them with numpy.unique(labels, "
              "return_inverse=True)[1])"
            : "labels must be integers (convert them with .astype('int64'))",
      "labels count from 0");
}

void for_each_number(const NpyHeader& header, std::span<const uint8_t> raw,
                     const std::filesystem::path& where,
                     const std::function<void(double)>& visit) {
  DTUNE_CHECK(raw.size() == header.value_bytes());
  if (!is_integer(header) && header.kind != 'f') {
    fail_type(header, where, "expected numbers");
  }
  for_each_item(header, [&](uint64_t place) {
    visit(real_at(raw.data() + place * static_cast<uint64_t>(header.item_bytes),
                  header));
  });
}

std::vector<double> npy_to_double(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where) {
  std::vector<double> values;
  values.reserve(header.items);
  for_each_number(header, raw, where,
                  [&](double value) { values.push_back(value); });
  return values;
}

std::vector<std::string> npy_to_words(const NpyHeader& header,
                                      std::span<const uint8_t> raw,
                                      const std::filesystem::path& where) {
  DTUNE_CHECK(raw.size() == header.value_bytes());
  if (header.kind == 'f' || header.kind == 'b') {
    fail_type(header, where, "expected integers or words");
  }
  std::vector<std::string> words;
  for_each_item(header, [&](uint64_t place) {
    const uint8_t* at =
        raw.data() + place * static_cast<uint64_t>(header.item_bytes);
    words.push_back(is_integer(header) ? std::to_string(value_at(at, header))
                                       : word_at(at, header, where));
  });
  return words;
}

}  // namespace dtune
