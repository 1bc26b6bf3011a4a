#include "dtune/gang/round.h"

#include <utility>

namespace dtune::gang {

std::vector<Span> Round::spans_of(const std::vector<int>& members) const {
  std::vector<Span> spans;
  for (const int m : members) {
    const std::vector<Span>& own = part(m).work.spans;
    spans.insert(spans.end(), own.begin(), own.end());
  }
  return spans;
}

LossTotals Round::totals_of(const std::vector<int>& members) const {
  LossTotals totals;
  for (const int m : members) totals += part(m).totals;
  return totals;
}

void Round::hand_out(RoundPlan plan, MonoTime now) {
  if (!plan.open || !plan_.open) ++number_;
  plan_ = std::move(plan);
  plan_.sizes.resize(plan_.members.size());
  handed_ = now;
  half_ready_ = MonoTime{};
  source_ = -1;
  settling_ = new_group_ = hanging_reported_ = false;
  plan_.work.round = number_;
  int64_t offset = 0;
  for (size_t i = 0; i < plan_.members.size(); ++i) {
    Part& part = edit(plan_.members[i]);
    part.showed_speed = std::exchange(part.shows_speed, plan_.shows_speeds);
    part.work = plan_.work;
    part.work.first_sample = offset;
    part.work.spans = slice(plan_.batch.spans, offset, plan_.sizes[i]);
    offset += plan_.sizes[i];
    part.handed = now;
    part.unpaced = false;
    part.stood_still = Duration{0};
    part.given_up = MonoTime{};
  }
}

void Round::begin_group(const std::vector<int>& members, int source,
                        bool settling) {
  source_ = source;
  settling_ = settling;
  new_group_ = true;
  reduced_by_ = members;
  for (const int m : members) unpace(m);
}

void Round::reduce(const std::vector<int>& participants, int source) {
  // Making a group of other participants takes time that is not theirs.
  new_group_ = participants != reduced_by_;
  reduced_by_ = participants;
  for (const int m : plan_.members) edit(m).unpaced = new_group_;
  source_ = source;
  if (source >= 0) unpace(source);
}

bool Round::note_ready(int member, const Ready& ready, MonoTime now) {
  Part& part = edit(member);
  part.totals = ready.totals;
  part.metrics = ready.metrics;
  part.ready_at = now;
  return std::exchange(part.ready_for, ready.round) != ready.round;
}

}  // namespace dtune::gang
