#include "dtune/gang/store.h"

namespace dtune::gang {

std::vector<int> GangStore::set(const std::string& key,
                                const std::string& value) {
  const auto [it, fresh] = values_.try_emplace(key);
  if (fresh) {
    order_.push_back(key);
    bytes_ += key.size();
  } else {
    bytes_ -= it->second.size();
  }
  it->second = value;
  bytes_ += value.size();
  while (bytes_ > kMostBytes && order_.front() != key) {
    const auto oldest = values_.find(order_.front());
    bytes_ -= oldest->first.size() + oldest->second.size();
    values_.erase(oldest);
    order_.pop_front();
  }
  const auto waiters = waiting_.extract(key);
  if (waiters.empty()) return {};
  return {waiters.mapped().begin(), waiters.mapped().end()};
}

bool GangStore::get(const std::string& key, int member) {
  if (values_.contains(key)) return true;
  if (waiting_.size() < kMostWaiting || waiting_.contains(key)) {
    waiting_[key].insert(member);
  }
  return false;
}

const std::string* GangStore::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void GangStore::forget(int member) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    it->second.erase(member);
    it = it->second.empty() ? waiting_.erase(it) : std::next(it);
  }
}

}  // namespace dtune::gang
