// A text file for what processes write, which cannot fill the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace dtune {

// Appends lines. At `most` bytes the file is renamed to FILE.1, in place of the
// one before, and begun anew: the last `most` bytes are always there. What
// cannot be written is left out. Not thread-safe.
class BoundedLog {
 public:
  static constexpr uint64_t kMost = uint64_t{16} << 20;

  explicit BoundedLog(std::filesystem::path file, uint64_t most = kMost);

  // At once in the file.
  void write(std::string_view line);
  const std::filesystem::path& file() const { return file_; }

 private:
  void open();

  const std::filesystem::path file_;
  const uint64_t most_;
  uint64_t size_ = 0;
  std::ofstream stream_;
};

}  // namespace dtune
