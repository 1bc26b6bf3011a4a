// Writes the prepared file of a source and its splits.
#pragma once

#include <cstdint>
#include <filesystem>

#include "dtune/data/prepared.h"
#include "dtune/data/split.h"

namespace dtune {

// Writes beside `path` and renames. Images that are still in the source are
// read in pieces of some megabytes. REQUIRES: no other writes the same path
// (the caller holds its lock). Throws what the sets throw, Error(temporary)
// where the disk is full, Error(data) where the folder cannot be written;
// leaves no partial file.
void write_prepared(const std::filesystem::path& path, const SourceData& source,
                    const SplitPlan& plan, uint64_t key);

}  // namespace dtune
