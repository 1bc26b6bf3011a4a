// What the data of a study were when it began, in a small file of its folder:
// images that come or go later change the splits, and with them what the
// metrics of its trials and of its model mean.
#pragma once

#include <filesystem>
#include <string>

#include "dtune/data/prepared.h"

namespace dtune {

inline constexpr const char* kSeenData = "seen-data.txt";  // beside the model

// Writes down what the data are where `file` does not exist yet. Else returns
// what differs: "there are 117 training images, there were 115"; "" where
// nothing does. A file that cannot be read or written says
// nothing: it serves this warning alone.
std::string compare_seen_data(const std::filesystem::path& file,
                              const PreparedData& data);

// The same of one split, which may be the only one that counts; never writes.
std::string compare_seen_data(const std::filesystem::path& file,
                              const PreparedData& data, Split split);

}  // namespace dtune
