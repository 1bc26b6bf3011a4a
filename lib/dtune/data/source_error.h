// What all readers of data sets share: error texts and limits on sizes that a
// file claims. Whatever a header says is checked here before it is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace dtune {

// Deflate cannot expand more than 1032:1 (zlib's technical details); a header
// that claims more than that of what its file holds lies.
inline constexpr uint64_t kMaxDeflateRatio = 1032;

// An image's sides and pixels; larger ones are refused before they are decoded.
inline constexpr int64_t kMaxImageSide = 65'536;
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 27;

inline constexpr int kMaxClasses = 100'000;

// Throws Error(data) with "where: what".
[[noreturn]] void fail_data(const std::filesystem::path& where,
                            const std::string& what);

// Product of non-negative sizes, empty where it passes 2^62 or one is negative.
std::optional<uint64_t> checked_product(std::initializer_list<int64_t> sizes);
std::optional<uint64_t> checked_product(std::span<const int64_t> sizes);

// Throws Error(data) if `bytes` is more than the machine's memory.
void check_fits_memory(const std::filesystem::path& where, uint64_t bytes);

// Throws Error(data) naming the first label that is not in 0 .. classes-1.
void check_labels(const std::filesystem::path& where,
                  std::span<const int32_t> labels, int classes);

// "1.5 GiB", "53.8 MiB", "12 bytes".
std::string format_bytes(uint64_t bytes);

}  // namespace dtune
