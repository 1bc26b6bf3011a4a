#include "dtune/study/trial.h"

#include "dtune/study/words.h"

namespace dtune {
namespace {

constexpr Words<9> kStates = {"waiting",  "running",   "paused",
                              "complete", "cut",       "failed",
                              "lost",     "timed_out", "invalid"};
static_assert(size_t(TrialState::invalid) + 1 == kStates.size());

constexpr Words<24> kReasons = {
    "none",      "proposed",   "assigned",      "rung",       "promoted",
    "horizon",   "median",     "hopeless",      "stalled",    "straggling",
    "diverged",  "crashed",    "out_of_memory", "bad_output", "lease_lapsed",
    "node_lost", "killed",     "wall_clock",    "user",       "budget",
    "resumed",   "superseded", "said_invalid",  "scheduled"};
static_assert(size_t(Reason::scheduled) + 1 == kReasons.size());

}  // namespace

const char* to_string(TrialState state) { return word_of(kStates, state); }
const char* to_string(Reason reason) { return word_of(kReasons, reason); }

TrialState parse_trial_state(const std::string& word) {
  return stored_value<TrialState>(kStates, word, "trial state");
}

Reason parse_reason(const std::string& word) {
  return stored_value<Reason>(kReasons, word, "reason");
}

const char* to_string(TrialKind kind) {
  constexpr const char* kWords[] = {"search", "final", "repeat"};
  return kWords[static_cast<size_t>(kind)];
}

TrialKind parse_trial_kind(const std::string& word) {
  for (const TrialKind kind : {TrialKind::final, TrialKind::repeat}) {
    if (word == to_string(kind)) return kind;
  }
  return TrialKind::search;
}

bool is_terminal(TrialState state) {
  switch (state) {
    case TrialState::waiting:
    case TrialState::running:
    case TrialState::paused:
      return false;
    case TrialState::complete:
    case TrialState::cut:
    case TrialState::failed:
    case TrialState::lost:
    case TrialState::timed_out:
    case TrialState::invalid:
      return true;
  }
  return true;
}

bool is_failure(TrialState state) {
  return state == TrialState::failed || state == TrialState::lost ||
         state == TrialState::timed_out || state == TrialState::invalid;
}

}  // namespace dtune
