#include <limits>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/data/npy.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

// One value; an unsigned one past the range of int64 becomes its largest.
int64_t value_at(const uint8_t* at, const NpyHeader& header) {
  const int n = header.item_bytes;
  uint64_t bits = 0;
  for (int i = 0; i < n; ++i) {
    const int from = header.big_endian ? i : n - 1 - i;
    bits = bits << 8 | at[from];
  }
  if (header.kind == 'i') {
    const int unused = 64 - 8 * n;
    return static_cast<int64_t>(bits << unused) >> unused;
  }
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(bits > kMax ? kMax : bits);
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
                         const char* remedy) {
  DTUNE_CHECK(raw.size() == header.value_bytes());
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
  return convert<uint8_t>(header, raw, where, "scale pixels to uint8");
}

std::vector<int32_t> npy_to_int32(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where) {
  return convert<int32_t>(header, raw, where, "labels count from 0");
}

}  // namespace dtune
