// Bytes of a file that may be gzip-compressed, read in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace dtune {

// Reads plain bytes or, where they start with gzip's magic, what they inflate
// to (several members in a row included). Not thread-safe; does not own the
// bytes, which must outlive it.
class InflatingReader {
 public:
  // `where` stands in messages.
  InflatingReader(std::span<const uint8_t> bytes, std::filesystem::path where);
  ~InflatingReader();
  InflatingReader(const InflatingReader&) = delete;
  InflatingReader& operator=(const InflatingReader&) = delete;

  bool compressed() const;

  // The most that can still come: what is left of plain bytes, or what deflate
  // can at most make of compressed ones.
  uint64_t most_bytes() const;

  // Fills `out` as far as there are bytes; returns how many it wrote, less than
  // out.size() at the end only. Throws Error(data) where gzip data are damaged
  // or end too early.
  size_t read(std::span<uint8_t> out);

 private:
  struct Stream;
  size_t read_plain(std::span<uint8_t> out);
  size_t inflate_some(std::span<uint8_t> out);

  std::span<const uint8_t> bytes_;
  std::filesystem::path where_;
  std::unique_ptr<Stream> stream_;  // null: plain
};

}  // namespace dtune
