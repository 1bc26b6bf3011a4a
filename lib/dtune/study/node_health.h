// Which nodes trials fail on, one after the other: a node with a bad disk or
// too little memory must not eat up a study.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "dtune/base/clock.h"

namespace dtune {

// After three attempts in a row that ended badly on a node, without a step in
// between, it rests for ten seconds; each further one doubles that, up to ten
// minutes. Not thread-safe.
class NodeHealth {
 public:
  // An attempt ended badly there. How long the node is to rest from `now` on;
  // empty: it need not.
  std::optional<Duration> failed(const std::string& node, MonoTime now);
  // A step was trained there.
  void worked(const std::string& node) { nodes_.erase(node); }
  bool rests(const std::string& node, MonoTime now) const;

  struct Record {
    int failures = 0;  // in a row
    MonoTime until{};
  };
  // Of those that have failed since they worked.
  const std::map<std::string, Record>& records() const { return nodes_; }

 private:
  std::map<std::string, Record> nodes_;
};

}  // namespace dtune
