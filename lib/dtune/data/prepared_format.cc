#include "dtune/data/prepared_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "dtune/base/error.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

constexpr int kMaxPreparedChannels = 4096;

[[noreturn]] void fail_damaged(const fs::path& where, const char* what) {
  fail_data(where,
            fmt::format("is damaged: {} (delete it; it is made anew)", what));
}

PreparedHeader copy_header(Bytes file, const fs::path& where) {
  PreparedHeader header;
  if (file.size() < sizeof header) fail_damaged(where, "it is too short");
  std::memcpy(&header, file.data(), sizeof header);
  return header;
}

void check_identity(const PreparedHeader& header, uint64_t size,
                    const fs::path& where) {
  if (header.magic != kPreparedMagic) {
    fail_data(where, "is not a prepared data set of dtune (check the path)");
  }
  if (header.version != kPreparedVersion ||
      header.byte_order != kPreparedByteOrder) {
    fail_data(where, fmt::format("was prepared by another version of dtune or "
                                 "another machine (version {}, this one reads "
                                 "{}; delete it: it is made anew)",
                                 header.version, kPreparedVersion));
  }
  if (header.header_crc != header_crc(header)) {
    fail_damaged(where, "the check sum of its header is wrong");
  }
  if (header.file_bytes != size) fail_damaged(where, "its size is wrong");
}

// A section of `sizes` multiplied bytes at `offset` lies within the file.
void check_section(uint64_t offset, std::initializer_list<int64_t> sizes,
                   uint64_t file_bytes, const fs::path& where) {
  const auto bytes = checked_product(sizes);
  if (!bytes || offset % kPreparedAlignment != 0 || offset > file_bytes ||
      *bytes > file_bytes - offset) {
    fail_damaged(where, "a section lies outside of it");
  }
}

void check_words(uint64_t offset, uint64_t bytes, Bytes file,
                 const fs::path& where) {
  if (bytes > file.size()) fail_damaged(where, "a section lies outside of it");
  check_section(offset, {int64_t(bytes)}, file.size(), where);
}

// Each with its length before it.
std::vector<std::string> words_in(Bytes left, const fs::path& where) {
  std::vector<std::string> words;
  while (!left.empty()) {
    uint32_t length = 0;
    if (left.size() < sizeof length) fail_damaged(where, "a name is cut off");
    std::memcpy(&length, left.data(), sizeof length);
    left = left.subspan(sizeof length);
    if (length > left.size()) fail_damaged(where, "a name is cut off");
    words.emplace_back(reinterpret_cast<const char*>(left.data()), length);
    left = left.subspan(length);
  }
  return words;
}

void check_shape(const PreparedHeader& header, const fs::path& where) {
  const auto within = [](int32_t value, int64_t most) {
    return value >= 1 && value <= most;
  };
  if (!within(header.channels, kMaxPreparedChannels) ||
      !within(header.height, kMaxImageSide) ||
      !within(header.width, kMaxImageSide) ||
      !within(header.classes, kMaxClasses)) {
    fail_damaged(where, "its shape is out of range");
  }
}

void check_split(const PreparedHeader& header, const PreparedSplit& split,
                 Bytes file, const fs::path& where) {
  check_section(split.images_offset,
                {split.count, header.height, header.width, header.channels},
                file.size(), where);
  check_section(split.labels_offset, {split.count, int64_t{sizeof(int32_t)}},
                file.size(), where);
  const std::byte* at = file.data() + split.labels_offset;
  for (int64_t i = 0; i < split.count; ++i) {
    int32_t label = 0;
    std::memcpy(&label, at + i * int64_t{sizeof label}, sizeof label);
    if (label < 0 || label >= header.classes) {
      fail_damaged(where, "a label is out of range");
    }
  }
}

void check_statistics(const PreparedHeader& header, Bytes file,
                      const fs::path& where) {
  check_section(header.statistics_offset,
                {2, header.channels, int64_t{sizeof(float)}}, file.size(),
                where);
  std::vector<float> values(2 * size_t(header.channels));
  std::memcpy(values.data(), file.data() + header.statistics_offset,
              values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const bool deviation = i >= values.size() / 2;
    if (!std::isfinite(values[i]) || (deviation && !(values[i] > 0))) {
      fail_damaged(where, "its statistics are not valid");
    }
  }
}

uint32_t crc_of(Bytes bytes) {
  uLong crc = ::crc32_z(0, nullptr, 0);
  crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()),
                  bytes.size());
  return static_cast<uint32_t>(crc);
}

}  // namespace

uint32_t header_crc(const PreparedHeader& header) {
  PreparedHeader copy = header;
  copy.header_crc = 0;
  return crc_of(std::as_bytes(std::span(&copy, 1)));
}

void check_prepared(Bytes file, const fs::path& where) {
  const PreparedHeader header = copy_header(file, where);
  check_identity(header, file.size(), where);
  check_shape(header, where);
  check_words(header.names_offset, header.names_bytes, file, where);
  check_words(header.notes_offset, header.notes_bytes, file, where);
  check_statistics(header, file, where);
  for (const PreparedSplit& split : header.splits) {
    check_split(header, split, file, where);
  }
}

std::vector<std::string> prepared_names(Bytes file, const fs::path& where) {
  const PreparedHeader header = copy_header(file, where);
  auto names =
      words_in(file.subspan(header.names_offset, header.names_bytes), where);
  if (names.size() != size_t(header.classes)) {
    fail_damaged(where, "it does not name its classes");
  }
  return names;
}

std::vector<std::string> prepared_notes(Bytes file, const fs::path& where) {
  const PreparedHeader header = copy_header(file, where);
  return words_in(file.subspan(header.notes_offset, header.notes_bytes), where);
}

bool is_prepared(const fs::path& path, uint64_t key) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  try {
    const MappedFile file(path);
    check_prepared(file.bytes(), path);
    prepared_names(file.bytes(), path);
    prepared_notes(file.bytes(), path);
    const PreparedHeader header = copy_header(file.bytes(), path);
    return header.key == key &&
           header.body_crc == crc_of(file.bytes().subspan(sizeof header));
  } catch (const Error& failure) {
    if (failure.kind() == ErrorKind::data) return false;
    throw;
  }
}

}  // namespace dtune
