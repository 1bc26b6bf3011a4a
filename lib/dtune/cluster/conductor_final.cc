// After the search: the winner is trained to the end and tested once.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/cluster/conductor.h"
#include "dtune/store/final_result.h"

namespace dtune {

void Conductor::end_search() {
  const Trial* best = incumbent(study_);
  if (const auto leader = scheduler_.leader(study_)) {
    best = &study_.trial(leader->trial);
  }
  best_ = best == nullptr ? 0 : best->id;
  if (best == nullptr) {
    end(StudyState::failed, causes_of_failure());
    return;
  }
  const bool wanted = study_.recipe.final_training.enabled &&
                      !study_.recipe.command && !options_.model_file.empty();
  if (!wanted) {
    finish_with_best(why_over_);
    return;
  }
  if (!final_is_done(*best)) begin_final(*best);
}

// "no trial has a finite val_accuracy: 3 diverged (val_accuracy is nan ...)"
std::string Conductor::causes_of_failure() const {
  struct Cause {
    int count = 0;
    std::string example;
  };
  std::map<std::string, Cause> causes;
  for (const Trial& trial : study_.trials) {
    Cause& cause = causes[to_string(trial.reason)];
    ++cause.count;
    if (cause.example.empty() && !trial.detail.empty()) {
      cause.example = fmt::format("trial {}: {}", trial.id, trial.detail);
    }
  }
  std::string text = fmt::format("no trial has a finite {}", objective_.metric);
  if (!why_over_.empty()) text += "; " + why_over_;
  for (const auto& [reason, cause] : causes) {
    text += fmt::format("; {} x {}", cause.count, reason);
    if (!cause.example.empty()) text += fmt::format(" ({})", cause.example);
  }
  return text;
}

// A resumed study whose model was made already, and is still of its best point.
bool Conductor::final_is_done(const Trial& best) {
  const auto result = decode_final_result(records_.final_json());
  if (!result || result->best != best.id || result->final_trial == 0 ||
      !std::filesystem::exists(result->model)) {
    return false;
  }
  outcome_.final_trial = result->final_trial;
  outcome_.final_metrics = result->metrics;
  end(StudyState::finished, why_over_);
  return true;
}

void Conductor::begin_final(const Trial& best) {
  phase_ = Phase::final;
  retry_.clear();
  pending_.clear();
  finals_.clear();
  winner_ = 0;
  study_.state = StudyState::running;
  const size_t count =
      static_cast<size_t>(std::max(1, study_.recipe.final_training.seeds));
  // An interrupted one goes on if it trains the same point.
  for (Trial& trial : study_.trials) {
    if (finals_.size() == count) break;
    if (trial.kind != TrialKind::final || trial.point != best.point) continue;
    if (trial.state == TrialState::failed) continue;
    if (trial.state == TrialState::running) {
      records_.change(trial, TrialState::paused, Reason::resumed,
                      "its coordinator had ended");
    }
    finals_.push_back(trial.id);
  }
  while (finals_.size() < count) add_final(static_cast<int>(finals_.size()));
  for (const TrialId id : finals_) {
    Trial& trial = study_.trial(id);
    if (count > 1 && trial.steps() >= final_horizon()) {
      // The search has trained it to the end; only the winner is tested.
      if (trial.state != TrialState::complete) {
        records_.change(trial, TrialState::complete, Reason::horizon,
                        "reached the horizon");
      }
    } else {
      retry_.insert(id);
    }
  }
  changed_ = true;
}

void Conductor::add_final(int index) {
  const FinalSpec& spec = study_.recipe.final_training;
  const TrialId id = static_cast<TrialId>(study_.trials.size()) + 1;
  study_.trials.emplace_back();
  runs_.emplace_back();
  const Trial& best = study_.trial(best_);
  Trial& trial = study_.trial(id);
  trial.id = id;
  trial.kind = TrialKind::final;
  trial.point = best.point;
  trial.unit = best.unit;
  trial.seed = index == 0
                   ? best.seed
                   : mix_seed({best.seed, hash_text("final"), uint64_t(index)});
  trial.target_step = final_horizon();
  trial.created_ms = clock_.wall_ms();
  records_.change(trial, TrialState::waiting, Reason::proposed,
                  fmt::format("final training of trial {}", best.id));
  records_.decide(trial, DecisionMaker::coordinator, "final",
                  fmt::format("trial {} is the best", best.id));
  const bool same_training = spec.data == FinalData::train && spec.epochs == 0;
  if (index == 0 && same_training) continue_search_training(trial, best);
  finals_.push_back(id);
}

// The search has trained this very model already, up to its checkpoint: the
// final training takes it from there, with its curve.
void Conductor::continue_search_training(Trial& final_trial,
                                         const Trial& best) {
  std::error_code error;
  const std::filesystem::path from = best.checkpoint;
  if (from.empty() || best.checkpoint_step != best.steps()) return;
  const std::filesystem::path to = checkpoint_of(final_trial.id);
  std::filesystem::copy_file(
      from, to, std::filesystem::copy_options::overwrite_existing, error);
  if (error) return;  // then it is trained from the start
  final_trial.checkpoint = to.string();
  final_trial.checkpoint_step = best.steps();
  for (const StepReport& report : best.curve) {
    StepReport copy = report;
    copy.sequence = records_.next_sequence();
    records_.copy_report(final_trial, copy);
    final_trial.curve.push_back(std::move(copy));
  }
}

int Conductor::final_horizon() const {
  if (options_.final_horizon > 0) return options_.final_horizon;
  const Recipe& recipe = study_.recipe;
  const double epochs = recipe.final_training.epochs;
  if (epochs <= 0 || recipe.train.epochs <= 0) return study_.horizon;
  const double steps = study_.horizon * epochs / recipe.train.epochs;
  return std::max(1, static_cast<int>(std::ceil(steps - 1e-9)));
}

void Conductor::on_final_step(Trial& trial) {
  const bool finishes = finals_.size() == 1 || trial.id == winner_;
  if (trial.steps() < final_horizon() || finishes) return;
  records_.change(trial, TrialState::complete, Reason::horizon,
                  "reached the horizon");
  release(trial, true);
}

void Conductor::on_final_over(Trial& trial, const control::Ended& ended) {
  if (ended.outcome != control::Outcome::complete) return;  // see advance_final
  records_.change(trial, TrialState::complete, Reason::horizon,
                  "trained to the end and tested");
  outcome_.final_trial = trial.id;
  if (!trial.curve.empty()) outcome_.final_metrics = trial.curve.back().metrics;
  for (const auto& [name, value] : ended.metrics) {
    outcome_.final_metrics[name] = value;
  }
  FinalResult result;
  result.best = best_;
  result.final_trial = trial.id;
  result.metrics = outcome_.final_metrics;
  result.model = options_.model_file.string();
  result.why = why_over_;
  records_.set_final_json(encode_final_result(result));
  end(StudyState::finished, why_over_);
}

void Conductor::advance_final() {
  if (any_lease() || !retry_.empty()) return;
  // All have ended: the best of those that were trained sees the test split.
  std::optional<double> value;
  TrialId winner = 0;
  const Trial* failed = nullptr;
  for (const TrialId id : finals_) {
    const Trial& trial = study_.trial(id);
    if (trial.state != TrialState::complete) {
      failed = &trial;
      continue;
    }
    const auto last = last_value(objective_, trial);
    if (winner == 0 || (last && (!value || *last > *value))) {
      winner = id;
      value = last;
    }
  }
  if (winner == 0 || winner == winner_) {
    const std::string why =
        failed == nullptr ? "it ended without a result" : failed->detail;
    end(StudyState::interrupted,
        fmt::format("the search is finished (the best is trial {}), but its "
                    "final training failed: {}; `dtune resume` tries it again",
                    best_, why));
    return;
  }
  winner_ = winner;
  retry_.insert(winner);
}

void Conductor::finish_with_best(const std::string& why) {
  const Trial& best = study_.trial(best_);
  FinalResult result;
  result.best = best_;
  result.why = why;
  for (const StepReport& report : best.curve) {
    const auto value = objective_value(objective_, report);
    if (value && *value == *best_value(objective_, best)) {
      result.metrics = report.metrics;
      break;
    }
  }
  outcome_.final_metrics = result.metrics;
  records_.set_final_json(encode_final_result(result));
  end(StudyState::finished, why);
}

}  // namespace dtune
