#include "store/story.h"

#include <algorithm>

#include "store/records.h"

namespace dtune::test {
namespace {

constexpr TrialId kStoryTrials = 3;

Held held_by(TrialStore& store) {
  const StudyRecords records = store.load_records();
  Held held;
  held.study = records.row.has_value();
  held.sessions = records.sessions.size();
  held.events = records.events.size();
  held.decisions = records.decisions.size();
  for (const Trial& trial : store.load_trials()) {
    held.trials.emplace_back(trial.failures, trial.steps());
  }
  return held;
}

}  // namespace

void Story::tolerate(const std::function<void()>& put) {
  try {
    put();
  } catch (const Error& error) {
    errors_.push_back(error);
  }
}

void Story::open(TrialStore& store) {
  StudyRow row = make_study();
  row.horizon = 1 << 20;
  row.final_json = "";
  row.sessions = static_cast<int64_t>(now_.sessions) + 1;
  store.begin_group();
  tolerate([&] { store.put_study(row); });
  tolerate([&] {
    store.put_session({row.sessions, "study: a\n", 1, 0, 0, 1});
  });
  store.end_group();
  now_.study = true;
  ++now_.sessions;
  states_.push_back(now_);
}

void Story::put(TrialStore& store, const std::string& detail) {
  const bool group = ++count_ % 4 == 0;
  if (group) store.begin_group();
  for (int i = 0; i < (group ? 3 : 1); ++i) put_one(store, detail);
  if (group) store.end_group();
  states_.push_back(now_);
}

bool Story::finish(TrialStore& store) {
  for (int i = 0; i < 100; ++i) {
    const size_t before = errors_.size();
    tolerate([&] { store.flush(); });
    if (errors_.size() == before) return true;
  }
  return false;
}

int64_t Story::find(TrialStore& store, size_t least) const {
  const Held held = held_by(store);
  for (size_t i = least; i < states_.size(); ++i) {
    if (states_[i] == held) return static_cast<int64_t>(i);
  }
  return -1;
}

void Story::put_one(TrialStore& store, const std::string& detail) {
  const auto known = static_cast<TrialId>(now_.trials.size());
  const uint64_t choice = rng_.below(5);
  if (known == 0 || (choice == 0 && known < kStoryTrials)) {
    now_.trials.emplace_back(1, 0);
    return put_trial(store, known + 1, detail);
  }
  const TrialId id = 1 + static_cast<TrialId>(rng_.below(uint64_t(known)));
  auto& [failures, steps] = now_.trials[size_t(id) - 1];
  switch (choice) {
    case 0:
      ++failures;
      return put_trial(store, id, detail);
    case 1:
      ++now_.events;
      return tolerate([&] {
        TrialEvent event;
        event.trial = id;
        store.put_event(event);
      });
    case 2:
      ++now_.decisions;
      return tolerate([&] {
        Decision decision;
        decision.number = static_cast<int64_t>(now_.decisions);
        decision.trial = id;
        store.put_decision(decision);
      });
    default:
      ++steps;
      return tolerate(
          [&] { store.put_report(id, 1, make_report(steps, 0.5), {}); });
  }
}

void Story::put_trial(TrialStore& store, TrialId id,
                      const std::string& detail) {
  Trial trial = make_trial(id);
  trial.failures = now_.trials[size_t(id) - 1].first;
  trial.detail = detail;
  tolerate([&] { store.put_trial(trial); });
}

}  // namespace dtune::test
