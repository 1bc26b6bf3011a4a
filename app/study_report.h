// The page of `dtune report`, made from databases.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtune {

// What the page draws of a study (page_data.h). Also of one that runs: it is
// read as it is committed. Costs a forest and the tuner's forecasts, a second
// at most for a study of usual size. Throws as load_study does; where the tuner
// cannot be made (a study of warm_start is gone), the page says so.
std::string study_page_data(const std::filesystem::path& database);

// The page that shows these studies. REQUIRES: at least one.
std::string study_report(const std::vector<std::filesystem::path>& databases);

}  // namespace dtune
