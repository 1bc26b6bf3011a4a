// Which files a data set is read from; what makes a prepared copy stale.
#pragma once

#include <filesystem>
#include <vector>

#include "dtune/study/data_spec.h"

namespace dtune {

// All files that open_source would read, in a fixed order; none for synthetic.
// Throws Error(data) or Error(config) as open_source does if one is missing.
std::vector<std::filesystem::path> source_files(const DataSpec& spec);

}  // namespace dtune
