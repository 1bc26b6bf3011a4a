// Writes .npz archives: .npy arrays (version 1, little-endian, C order) in a
// zip archive, deflated. The same arrays give the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtune {

// Not thread-safe. Keeps everything in memory until write().
class NpzWriter {
 public:
  // `name` without ".npy". REQUIRES: as many values as the shape says.
  void add(const std::string& name, const std::vector<size_t>& shape,
           std::span<const float> values);
  void add(const std::string& name, const std::vector<size_t>& shape,
           std::span<const double> values);
  void add(const std::string& name, const std::vector<size_t>& shape,
           std::span<const int64_t> values);
  // A list of words, as bytes (numpy's 'S').
  void add(const std::string& name, const std::vector<std::string>& words);

  // Atomically. Throws as write_file_atomic (base/file.h) does.
  void write(const std::filesystem::path& path) const;

 private:
  template <typename Value>
  void add_numbers(const std::string& name, const char* type,
                   const std::vector<size_t>& shape,
                   std::span<const Value> values);

  std::vector<std::pair<std::string, std::string>> members_;  // name, bytes
};

}  // namespace dtune
