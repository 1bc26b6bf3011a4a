// The page of `dtune report`: one HTML file without anything from outside.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dtune/report/summary.h"

namespace dtune {

// The page's own style and script, and what its Content-Security-Policy calls
// them by: the SHA-256. Made from page/ by CMake.
struct PagePart {
  std::string_view text;
  std::string_view sha256;  // 64 hexadecimal digits
};
PagePart page_style();
PagePart page_script();

enum class PageUse {
  file,    // nothing is ever loaded
  served,  // the page follows the study: from its server alone, which has the
           // data at PATH/data and a stream of changes at PATH/events
};

// A complete document that shows these studies (each a page_data.h object).
// Nothing but the two parts runs or is loaded: the policy refuses the rest.
std::string report_page(std::span<const std::string> studies,
                        std::string_view title, PageUse use = PageUse::file);

// A list of studies, the i-th with a link to study/i; without a script.
std::string studies_page(const std::vector<StudyListing>& studies,
                         std::string_view folder);

}  // namespace dtune
