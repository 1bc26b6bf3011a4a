// Writes the prepared file of a source and its splits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "dtune/data/prepared.h"
#include "dtune/data/split.h"

namespace dtune {

// Per channel of the pixels scaled to [0, 1]; sums are exact, so the result is
// the same on every machine.
struct PixelStatistics {
  std::vector<float> mean;
  std::vector<float> deviation;  // of the population, at least 1e-3
};
PixelStatistics pixel_statistics(const ImageSet& set,
                                 const std::vector<int64_t>& indices);

// Writes beside `path` and renames. REQUIRES: no other writes the same path
// (the caller holds its lock). Throws Error(temporary) where the disk is full,
// Error(data) where the folder cannot be written; leaves no partial file.
void write_prepared(const std::filesystem::path& path, const SourceData& source,
                    const SplitPlan& plan, uint64_t key);

}  // namespace dtune
