// What people are told.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/gang/master.h"

namespace dtune::gang {
namespace {

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::train:
      return "training";
    case Phase::evaluate:
      return "evaluation";
    case Phase::commit:
      break;
  }
  return "commit";
}

std::string seconds(Duration d) {
  return fmt::format("{:.1f} s", to_seconds(d));
}

}  // namespace

// "rank 2 on gpu1 (in 'backward' for 3.1 s, last heard 0.2 s ago)"
std::string GangMaster::describe(int member, MonoTime now) const {
  const Member& m = at(member);
  std::string text = fmt::format("rank {}", member);
  const std::string& node = options_.nodes[static_cast<size_t>(member)];
  if (!node.empty()) text += " on " + node;
  if (m.heard == MonoTime{}) return text + " (has never joined)";
  return text + fmt::format(" (in '{}' for {}, last heard {} ago)", m.phase,
                            seconds(now - m.phase_since),
                            seconds(now - m.heard));
}

void GangMaster::check_silence(MonoTime now) {
  for (int i = 0; i < members(); ++i) {
    if (closed()) return;
    const Member& m = at(i);
    if (present(m) && now - m.heard > options_.lease) {
      lost(i, fmt::format("silent for longer than {}", seconds(options_.lease)),
           now);
    }
  }
}

// Tells of shares that differ much from what was told last.
void GangMaster::tell_shares(const std::vector<int>& ranks,
                             const std::vector<int64_t>& sizes) {
  constexpr double kMuch = 0.1;
  std::vector<double> shares(members_.size(), 0);
  GangMark mark{"batch share", {}};
  std::string text;
  double largest_change = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto r = static_cast<size_t>(ranks[i]);
    shares[r] = static_cast<double>(sizes[i]) /
                static_cast<double>(std::max<int64_t>(1, round_.batch.size));
    const double before = r < shares_told_.size()
                              ? shares_told_[r]
                              : 1.0 / static_cast<double>(ranks.size());
    largest_change = std::max(largest_change, std::abs(shares[r] - before));
    mark.counters[fmt::format("rank {}", r)] = static_cast<double>(sizes[i]);
    text += fmt::format("{}{}", text.empty() ? "" : " : ", sizes[i]);
  }
  marks_.push_back(std::move(mark));
  shares_ = shares;
  if (!balancer_.changed() || largest_change < kMuch) return;
  shares_told_ = std::move(shares);
  event(GangEvent::Kind::balanced, -1,
        fmt::format("the batch is shared {} by predicted speeds", text));
}

void GangMaster::tell_hanging(MonoTime now) {
  const bool gathering = stage_ == Stage::gathering;
  const MonoTime since = gathering ? gathering_since_ : round_.handed;
  if (closed() || round_.hanging_told || since == MonoTime{}) return;
  if (gathering && in_state(State::waiting).empty()) return;
  const Duration allowed = std::max(kHanging, 10 * pace_.quantile(0.99));
  if (now - since <= allowed) return;
  std::string missing;
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    const bool owes = gathering ? m.state != State::waiting &&
                                      m.state != State::gone && m.awaited
                                : m.state == State::working;
    if (owes) missing += (missing.empty() ? "" : ", ") + describe(i, now);
  }
  if (missing.empty()) return;
  round_.hanging_told = true;
  const std::string what =
      gathering
          ? "the start of a step"
          : fmt::format("round {} ({})", round_.number, name_of(step_.phase));
  event(GangEvent::Kind::hanging, -1,
        fmt::format("{} has been waiting for {}; missing: {}", what,
                    seconds(now - since), missing));
}

GangStatus GangMaster::status(MonoTime now) const {
  GangStatus status;
  status.gang = options_.gang;
  status.phase = step_.phase;
  status.round = round_.number;
  if (accepted_.size() > 1) {
    int64_t samples = 0;
    for (size_t i = 1; i < accepted_.size(); ++i) {
      samples += accepted_[i].samples;
    }
    const double span =
        to_seconds(accepted_.back().when - accepted_.front().when);
    if (span > 0) {
      status.samples_per_second = static_cast<double>(samples) / span;
    }
  }
  for (int i = 0; i < members(); ++i) {
    const Member& m = at(i);
    MemberStatus s;
    s.node = options_.nodes[static_cast<size_t>(i)];
    s.present = present(m);
    s.phase = m.phase;
    if (m.heard != MonoTime{}) {
      s.phase_seconds = to_seconds(now - m.phase_since);
      s.silent_seconds = to_seconds(now - m.heard);
    }
    s.share = shares_.at(static_cast<size_t>(i));
    s.samples_per_second = balancer_.measured(i);
    s.predicted = balancer_.predicted(i);
    s.wait_share = m.wait_share;
    s.late = m.late;
    s.times = m.times;
    s.gauges = m.gauges;
    status.members.push_back(std::move(s));
  }
  return status;
}

}  // namespace dtune::gang
