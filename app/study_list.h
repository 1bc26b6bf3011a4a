// The studies below a folder.
#pragma once

#include <filesystem>
#include <vector>

#include "dtune/report/summary.h"

namespace dtune {

// Sorted; hidden folders and those of build tools are left out, as is what lies
// deeper than six folders. Throws Error(config) where it cannot be listed.
std::vector<std::filesystem::path> databases_below(
    const std::filesystem::path& folder);

// What a list shows of a study; of a database that cannot be read, why.
StudyListing listing_for(const std::filesystem::path& database);

}  // namespace dtune
