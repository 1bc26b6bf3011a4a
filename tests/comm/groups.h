// Groups of every engine, as the contract tests want them.
#pragma once

#include <memory>
#include <vector>

#include "dtune/comm/collective.h"

namespace dtune {

class LocalGroups {
 public:
  explicit LocalGroups(int size) : groups_(make_local_groups(size)) {}
  Collective& group(int rank) const {
    return *groups_[static_cast<size_t>(rank)];
  }
  void leave(int rank) { groups_[static_cast<size_t>(rank)].reset(); }

 private:
  std::vector<std::unique_ptr<Collective>> groups_;
};

}  // namespace dtune
