// The prepared file, version 2, in the machine's byte order:
//
//   header      PreparedHeader
//   names       each class name: uint32 length, UTF-8 bytes (printable_name)
//   notes       likewise, each of PreparedData::notes()
//   statistics  float32 mean[channels], deviation[channels]
//   for each split: images, uint8 [count, height, width, channels],
//                   labels, int32 [count]
//
// Every section starts at a multiple of 64 bytes. A copy of it lives in a cache
// only: where anything does not fit, it is made anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dtune/data/prepared.h"

namespace dtune {

inline constexpr std::array<char, 8> kPreparedMagic = {'d', 't', 'u', 'n',
                                                       'e', 'd', 'a', 't'};
inline constexpr uint32_t kPreparedVersion = 2;
inline constexpr uint32_t kPreparedByteOrder = 0x01020304;
inline constexpr uint64_t kPreparedAlignment = 64;

struct PreparedSplit {
  int64_t count;
  uint64_t images_offset;
  uint64_t labels_offset;
};

struct PreparedHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t byte_order;
  uint64_t file_bytes;
  uint64_t key;  // of spec and sources: see cache_key()
  int32_t channels;
  int32_t height;
  int32_t width;
  int32_t classes;
  uint64_t names_offset;
  uint64_t names_bytes;
  uint64_t notes_offset;
  uint64_t notes_bytes;
  uint64_t statistics_offset;
  std::array<PreparedSplit, 3> splits;  // by Split
  uint32_t body_crc;                    // of all bytes after the header
  uint32_t header_crc;                  // of the header with this field 0
};
static_assert(sizeof(PreparedHeader) == 168);

uint32_t header_crc(const PreparedHeader& header);

// Checks everything but the body's check sum: magic, version, the header's
// check sum, all sections within the file and aligned, labels in range. Throws
// Error(data) with `where`.
void check_prepared(std::span<const std::byte> file,
                    const std::filesystem::path& where);

// REQUIRES: check_prepared passed. Throws Error(data) for names that do not
// add up.
std::vector<std::string> prepared_names(std::span<const std::byte> file,
                                        const std::filesystem::path& where);

// Likewise.
std::vector<std::string> prepared_notes(std::span<const std::byte> file,
                                        const std::filesystem::path& where);

// Whether `path` is a whole, undamaged prepared file of this key; reads all of
// it.
bool is_prepared(const std::filesystem::path& path, uint64_t key);

}  // namespace dtune
