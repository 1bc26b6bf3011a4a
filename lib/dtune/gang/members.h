// Lists of members.
#pragma once

#include <algorithm>
#include <vector>

namespace dtune::gang {

inline bool contains(const std::vector<int>& members, int member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

}  // namespace dtune::gang
