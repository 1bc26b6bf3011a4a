#include "dtune/gang/spikes.h"

#include <algorithm>

namespace dtune::gang {

void Spikes::add(Duration length, MonoTime end) {
  recent_.push_back({length, end});
  if (recent_.size() > kWindow) recent_.pop_front();
}

Duration Spikes::rest(Duration silent) const {
  Duration beyond{0};
  int64_t longer = 0;
  for (const Spike& spike : recent_) {
    if (spike.length <= silent) continue;
    beyond += spike.length - silent;
    ++longer;
  }
  return longer > 0 ? beyond / longer : silent;
}

bool Spikes::worth_going_on(const Standstill& standstill) const {
  const auto waiting = static_cast<double>(standstill.waiting);
  const double usual = to_seconds(standstill.usual);
  const double worked = to_seconds(standstill.worked);
  const double rest = to_seconds(this->rest(standstill.silent));
  const double wait = waiting * (rest + std::max(0.0, usual - worked));
  // In their next round the others have the rank's samples as well.
  const double next = usual * (waiting + 1) / waiting;
  const double idle = rest < next ? next - rest : next / 2;
  return wait > worked + idle;
}

bool Spikes::worth_giving_up(size_t waiting, Duration silent,
                             Duration usual) const {
  const auto others = static_cast<double>(waiting);
  const double round = to_seconds(usual);
  const double rest = to_seconds(this->rest(silent));
  const double again = to_seconds(kRegrouping) + round * (others + 1) / others;
  const double idle = rest < again ? again - rest : round / 2;
  return others * rest > others * again + round + idle;
}

double Spikes::share(MonoTime now) const {
  if (recent_.empty()) return 0;
  Duration sum{0};
  for (const Spike& spike : recent_) sum += spike.length;
  const Spike& first = recent_.front();
  return to_seconds(sum) / to_seconds(now - first.end + first.length);
}

}  // namespace dtune::gang
