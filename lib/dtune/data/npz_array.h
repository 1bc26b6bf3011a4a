// One array of an .npz archive: whole, or piece by piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/data/npy.h"
#include "dtune/data/zip_archive.h"

namespace dtune {

struct NpzArray {
  NpyHeader header;
  std::vector<uint8_t> bytes;   // header.value_bytes() of them
  std::filesystem::path where;  // "set.npz: train_images", for messages
};

// `name` is without ".npy". Throws Error(data): no such member, no .npy array,
// damaged, more than the machine's memory.
NpzArray read_npz_array(ZipArchive& archive, const std::string& name);

// An array whose values stay in the archive. Not thread-safe. All functions
// throw Error(data) as read_npz_array does.
class NpzStream {
 public:
  NpzStream(std::shared_ptr<ZipArchive> archive, std::string name);

  const NpyHeader& header() const { return header_; }
  const std::filesystem::path& where() const { return where_; }

  // Fills `out` with the values' bytes from `first` on, as they lie in the
  // archive. What lies before has to be read: calls in rising order read the
  // archive once. REQUIRES: first + out.size() <= header().value_bytes().
  void read(uint64_t first, std::span<uint8_t> out);

  // All numbers, as for_each_number. REQUIRES: C order.
  void for_each(const std::function<void(double)>& visit);

  // Reads what has not been read yet, so that the member's check sum is known
  // to be right.
  void verify();

 private:
  void rewind();
  void skip_to(uint64_t place);

  std::shared_ptr<ZipArchive> archive_;
  std::string name_;
  NpyHeader header_;
  std::filesystem::path where_;
  std::optional<ZipArchive::Member> member_;  // at position_ of the values
  uint64_t position_ = 0;
  bool verified_ = false;
};

}  // namespace dtune
