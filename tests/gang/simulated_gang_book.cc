// What must hold for every gang, whatever happens to it.
#include <algorithm>
#include <map>

#include "gang/simulated_gang.h"
#include <fmt/format.h>

namespace dtune::simulated {

using namespace gang;  // NOLINT: its messages

void Gang::note_go(const Go& order) {
  if (!participants_.emplace(order.round, order.participants).second) return;
  gos.push_back(order);
  if (order.last) check_commit();
}

void Gang::check_equal(const std::vector<int>& who) {
  for (const int m : who) {
    if (process(m).state != process(who.front()).state) {
      fail(fmt::format("ranks {} and {} have applied different updates",
                       who.front(), m));
    }
  }
}

// The checkpoint holds every sample of every whole batch before the step's end,
// once in each epoch, and goes on from the checkpoint before.
void Gang::check_commit() {
  // A leader that dies just after it has written one lets a step end unheard.
  if (checkpoint_step_ <= committed) {
    return fail(
        fmt::format("a step was committed after {} with the checkpoint "
                    "of {}",
                    committed, checkpoint_step_));
  }
  committed = checkpoint_step_;
  std::map<int64_t, std::vector<int>> seen;
  int64_t total = 0;
  for (const int64_t round : checkpoint_) {
    const Handed& handed = handed_.at(round);
    auto& counts = seen[handed.epoch];
    counts.resize(static_cast<size_t>(setting_.samples), 0);
    for (const int m : participants_.at(round)) {
      for (const Span& span : handed.spans.at(m)) {
        total += span.size;
        for (int64_t i = span.first; i < span.first + span.size; ++i) {
          ++counts.at(static_cast<size_t>(i));
        }
      }
    }
  }
  const int64_t wanted = committed * setting_.step_samples;
  const BatchRange last =
      BatchCutter(setting_.samples, setting_.batch).at(wanted - 1);
  const int64_t end = last.epoch * setting_.samples + last.first + last.size;
  if (total != end) {
    fail(fmt::format("step {} ends with {} samples, not {}", committed, total,
                     end));
  }
  for (const auto& [epoch, counts] : seen) {
    const int64_t part =
        std::min(setting_.samples, end - epoch * setting_.samples);
    for (int64_t i = 0; i < setting_.samples; ++i) {
      if (counts[static_cast<size_t>(i)] != (i < part ? 1 : 0)) {
        return fail(fmt::format("sample {} of epoch {} was trained {} times", i,
                                epoch, counts[static_cast<size_t>(i)]));
      }
    }
  }
}

}  // namespace dtune::simulated
