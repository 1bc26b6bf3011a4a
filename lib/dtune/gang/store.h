// Values by name that a gang's members share, kept by its server.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dtune::gang {

// A value set again replaces the one before. The oldest values go where all
// together are larger than kMostBytes: group addresses of incarnations long
// past. Not thread-safe.
class GangStore {
 public:
  // Returns the members that have been waiting for it.
  std::vector<int> set(const std::string& key, const std::string& value);
  // Whether it is here; else `member` waits for it.
  bool get(const std::string& key, int member);
  // Null where it is not here. Until the next set().
  const std::string* find(const std::string& key) const;
  // `member` waits for nothing any more.
  void forget(int member);

  static constexpr size_t kMostBytes = size_t{64} << 20;
  static constexpr size_t kMostWaiting = 10'000;  // keys

 private:
  std::map<std::string, std::string> values_;
  std::deque<std::string> order_;
  size_t bytes_ = 0;
  std::map<std::string, std::set<int>> waiting_;
};

}  // namespace dtune::gang
