// After the search: the winner is trained to the end and tested once.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "dtune/cluster/coordinator_impl.h"
#include "dtune/store/final_result.h"

namespace dtune {

void Coordinator::Impl::end_search() {
  best_.find();
  if (best_.id() == 0) {
    end(StudyState::failed, causes_of_failure());
    return;
  }
  const Winner expected = winner_of(study_, scheduler_);
  if (repeats_.wanted()) {
    begin_repeats(expected.trial);
  } else {
    name_winner(expected);
    ship_best();
  }
}

void Coordinator::Impl::begin_repeats(TrialId expected) {
  phase_ = Phase::repeats;
  leases_.settle_all();
  barrier_.clear();
  const std::vector<TrialId> left = repeats_.begin(expected);
  leases_.add_up_to(study_.trials.size());
  for (const TrialId id : left) leases_.owe(id);
  changed_ = true;
}

void Coordinator::Impl::end_repeats() {
  if (const TrialId winner = repeats_.winner()) {
    name_winner({winner, repeats_.why(winner)});
  } else {
    name_winner(winner_of(study_, scheduler_));
  }
  ship_best();
}

void Coordinator::Impl::name_winner(const Winner& winner) {
  final_.set_winner(winner.why);
  for (const TrialId other : best_.appoint(winner.trial)) {
    drop_checkpoint(study_.trial(other));
  }
}

void Coordinator::Impl::ship_best() {
  if (!final_.wanted()) {
    // Reports of paused trials alone are no result where trials fail: these may
    // have failed as well, had they gone on.
    if (failures_alone_ended()) {
      end(StudyState::failed, causes_of_failure());
    } else {
      finish_with_best();
    }
    return;
  }
  if (auto made = final_.earlier_result()) {
    made->why = why_over_;  // of this search, not of an earlier one
    records_.set_final_json(encode_final_result(*made));
    finish_with(*made);
    return;
  }
  begin_final();
}

// Trials failed, and none was completed.
bool Coordinator::Impl::failures_alone_ended() const {
  if (study_.recipe.limits.failed_results == FailedResults::use) return false;
  const auto any = [this](TrialState state) {
    return std::any_of(
        study_.trials.begin(), study_.trials.end(), [&](const Trial& trial) {
          return trial.kind == TrialKind::search && trial.state == state;
        });
  };
  return any(TrialState::failed) && !any(TrialState::complete);
}

// "no trial has a finite val_accuracy; 3 x diverged (trial 1: val_accuracy is
// nan at step 2)". Trials that wait or are paused have not failed.
std::string Coordinator::Impl::causes_of_failure() const {
  struct Cause {
    int count = 0;
    std::string example;
  };
  std::map<std::string, Cause> causes;
  for (const Trial& trial : study_.trials) {
    if (!is_terminal(trial.state)) continue;
    Cause& cause = causes[to_string(trial.reason)];
    ++cause.count;
    if (cause.example.empty() && !trial.detail.empty()) {
      cause.example = fmt::format("trial {}: {}", trial.id, trial.detail);
    }
  }
  const auto reported = std::count_if(
      study_.trials.begin(), study_.trials.end(), [this](const Trial& trial) {
        return best_value(objective_, trial).has_value();
      });
  std::string text =
      reported == 0
          ? why_no_report(study_)
          : fmt::format(
                "no trial has a result: {} reported {} but {}, and reports of "
                "failed trials do not count (limits.failed_results: use)",
                reported, objective_.metric,
                best_.id() == 0 ? "failed later" : "none was completed");
  if (!why_over_.empty()) text += "; " + why_over_;
  if (causes.empty() && reported == 0 && steps_spent(study_) == 0) {
    text +=
        " before the first step of a trial was done (give it more: 'dtune "
        "resume' with --time; or shorten a step)";
  }
  for (const auto& [reason, cause] : causes) {
    text += fmt::format("; {} x {}", cause.count, reason);
    if (!cause.example.empty()) text += fmt::format(" ({})", cause.example);
  }
  return text;
}

void Coordinator::Impl::begin_final() {
  phase_ = Phase::final;
  leases_.settle_all();
  barrier_.clear();
  study_.state = StudyState::running;
  for (const TrialId id : final_.begin()) leases_.owe(id);
  leases_.add_up_to(study_.trials.size());
  changed_ = true;
}

void Coordinator::Impl::on_final_step(Trial& trial) {
  if (!final_.is_trained(trial)) return;
  records_.change(trial, TrialState::complete, Reason::horizon,
                  "reached the horizon");
  release(trial, true);
}

void Coordinator::Impl::on_final_over(Trial& trial,
                                      const control::Ended& ended) {
  if (ended.outcome != control::Outcome::complete) return;  // advance_final
  finish_with(final_.finish(trial, ended.metrics, why_over_));
}

void Coordinator::Impl::advance_final() {
  if (any_lease() || leases_.owes()) return;
  if (final_.chosen() == 0 && final_.choose()) {
    leases_.add_up_to(study_.trials.size());
    leases_.owe(final_.chosen());
    return;
  }
  end(StudyState::interrupted,
      fmt::format("the search is finished (the best is trial {}), but its "
                  "final training failed: {}; `dtune resume` tries it again",
                  best_.id(), final_.cause_of_failure()));
}

void Coordinator::Impl::finish_with_best() {
  const FinalResult result =
      result_without_model(study_, {best_.id(), final_.winner()}, why_over_);
  records_.set_final_json(encode_final_result(result));
  finish_with(result);
}

void Coordinator::Impl::finish_with(const FinalResult& result) {
  outcome_.final_trial = result.final_trial;
  end(StudyState::finished, result.why);
}

}  // namespace dtune
