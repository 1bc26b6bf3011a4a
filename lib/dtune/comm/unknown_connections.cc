#include "dtune/comm/unknown_connections.h"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace dtune::gateway {

void UnknownConnections::add(uint64_t id, const std::string& network) {
  count_ += networks_[network].all.insert(id).second ? 1 : 0;
}

void UnknownConnections::remove(uint64_t id, const std::string& network) {
  const auto found = networks_.find(network);
  if (found == networks_.end()) return;
  waiting_ -= found->second.waiting.erase(id);
  count_ -= found->second.all.erase(id);
  if (found->second.all.empty()) networks_.erase(found);
}

size_t UnknownConnections::count_of(const std::string& network) const {
  const auto found = networks_.find(network);
  return found == networks_.end() ? 0 : found->second.all.size();
}

uint64_t UnknownConnections::one_too_many() const {
  const auto rank = [this](const auto& entry) {
    const auto& [name, network] = entry;
    return std::tuple(network.all.size(), !trusted_.contains(name),
                      ~*network.all.begin());
  };
  const auto most = std::max_element(
      networks_.begin(), networks_.end(),
      [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return most == networks_.end() ? 0 : *most->second.all.begin();
}

void UnknownConnections::wait(uint64_t id, const std::string& network) {
  const auto found = networks_.find(network);
  if (found == networks_.end()) return;
  waiting_ += found->second.waiting.insert(id).second ? 1 : 0;
}

uint64_t UnknownConnections::next(MonoTime now) {
  save(now);
  if (waiting_ == 0 || saved_ < 1) return 0;
  const auto waits = [](const auto& entry) {
    return !entry.second.waiting.empty();
  };
  const auto after = networks_.upper_bound(last_turn_);
  auto turn = std::find_if(after, networks_.end(), waits);
  if (turn == networks_.end()) {
    turn = std::find_if(networks_.begin(), after, waits);
  }
  last_turn_ = turn->first;
  const uint64_t id = *turn->second.waiting.begin();
  turn->second.waiting.erase(id);
  --waiting_;
  saved_ -= 1;
  return id;
}

void UnknownConnections::save(MonoTime now) {
  if (counted_ != MonoTime{}) {
    saved_ += pace_.per_second * to_seconds(now - counted_);
  }
  saved_ = std::min(saved_, pace_.at_once);
  counted_ = now;
}

Duration UnknownConnections::pause(Duration most) const {
  if (waiting_ == 0) return most;
  const double seconds = (1 - saved_) / pace_.per_second;
  return std::clamp(from_seconds(seconds), Duration{0}, most);
}

}  // namespace dtune::gateway
