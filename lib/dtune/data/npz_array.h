// One array of an .npz archive, as it lies in its member.
#pragma once

#include <cstdint>
#include <filesystem>
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

}  // namespace dtune
