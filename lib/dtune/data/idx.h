// IDX, the format of MNIST and its relatives
// (http://yann.lecun.com/exdb/mnist): two zero bytes, a type (8: uint8), the
// number of dimensions, each dimension as a big-endian uint32, then the values,
// last dimension fastest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "dtune/data/prepared.h"

namespace dtune {

struct IdxArray {
  std::vector<int64_t> shape;   // 1 (labels) or 3 (images) dimensions
  std::vector<uint8_t> values;  // product of shape
};

// `bytes`: a whole file, gzip or plain; `where` stands in messages. Throws
// Error(data): neither gzip nor IDX, truncated, longer than it says, values
// that are not uint8, another number of dimensions.
IdxArray parse_idx(std::span<const uint8_t> bytes, int dimensions,
                   const std::filesystem::path& where);

// The four files of MNIST in `folder` (train-images-idx3-ubyte[.gz], ...).
SourceData read_idx_folder(const std::filesystem::path& folder,
                           std::vector<std::string> class_names);

// The files that read_idx_folder would read; throws as it does if one is
// missing.
std::vector<std::filesystem::path> idx_files(
    const std::filesystem::path& folder);

}  // namespace dtune
