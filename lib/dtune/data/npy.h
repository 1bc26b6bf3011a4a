// The .npy format (NumPy Enhancement Proposal 1,
// https://numpy.org/neps/nep-0001-npy-format.html), versions 1 to 3: magic,
// version, length of a Python dict literal, the literal, the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtune {

// Bytes that tell how long the header is.
inline constexpr size_t kNpyPrefix = 12;

struct NpyHeader {
  // 'u' unsigned, 'i' signed, 'b' bool, 'f' floating point of 2, 4 or 8 bytes,
  // 'S' words of bytes, 'U' words of UCS-4; nothing else is read.
  char kind = 'u';
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
// NumPy writes, values that are neither numbers nor words, sizes past 2^62.
NpyHeader parse_npy_header(std::span<const uint8_t> header,
                           const std::filesystem::path& where);

// Values in C order. Throw Error(data) for values that are no integers and for
// one that the type cannot hold.
// REQUIRES: raw.size() == header.value_bytes().
std::vector<uint8_t> npy_to_uint8(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where);
std::vector<int32_t> npy_to_int32(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where);

// Visits numbers of any type as they are, finite or not, in C order (integers
// past 2^63 become that). Throws Error(data) for words. REQUIRES: as above.
void for_each_number(const NpyHeader& header, std::span<const uint8_t> raw,
                     const std::filesystem::path& where,
                     const std::function<void(double)>& visit);
// The same as a list.
std::vector<double> npy_to_double(const NpyHeader& header,
                                  std::span<const uint8_t> raw,
                                  const std::filesystem::path& where);

// Words as UTF-8, integers in digits. Throws Error(data) for other values and
// for characters that Unicode does not have. REQUIRES: as above.
std::vector<std::string> npy_to_words(const NpyHeader& header,
                                      std::span<const uint8_t> raw,
                                      const std::filesystem::path& where);

}  // namespace dtune
