// Names of classes as people and JSON can take them: a folder's name may hold
// any bytes.
#pragma once

#include <string>
#include <string_view>

namespace dtune {

// `raw` with '?' for every control character and every byte that is not part
// of well-formed UTF-8 (Unicode 15, table 3-7).
std::string printable_name(std::string_view raw);

}  // namespace dtune
