// The .npy format (NumPy Enhancement Proposal 1,
// https://numpy.org/neps/nep-0001-npy-format.html), versions 1 to 3: magic,
// version, length of a Python dict literal, the literal, the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtune {

// Bytes that tell how long the header is.
inline constexpr size_t kNpyPrefix = 12;

struct NpyHeader {
  char kind = 'u';  // 'u' unsigned, 'i' signed, 'b' bool; nothing else is read
  int item_bytes = 1;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t items = 0;  // product of shape

  uint64_t value_bytes() const {
    return items * static_cast<uint64_t>(item_bytes);
  }
};

// Offset of the values, from the first kNpyPrefix bytes. Throws Error(data):
// no .npy, another version, a header of more than 64 KiB.
size_t npy_data_offset(std::span<const uint8_t> prefix,
                       const std::filesystem::path& where);

// `header`: all bytes before the values. Throws Error(data): not the dict that
// NumPy writes, values that are not integers, sizes past 2^62.
NpyHeader parse_npy_header(std::span<const uint8_t> header,
                           const std::filesystem::path& where);

// Values in C order. Throw Error(data) for one that the type cannot hold.
// REQUIRES: raw.size() == header.value_bytes().
std::vector<uint8_t> npy_to_uint8(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where);
std::vector<int32_t> npy_to_int32(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where);

}  // namespace dtune
