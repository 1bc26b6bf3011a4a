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
  best_ = best == nullptr ? 0 : best->id;
  if (best == nullptr) {
    end(StudyState::failed, causes_of_failure());
    return;
  }
  if (!wants_final()) {
    finish_with_best(why_over_);
    return;
  }
  if (!final_is_done(*best)) begin_final(*best);
}

bool Conductor::wants_final() const {
  return study_.recipe.final_training.enabled && !study_.recipe.command &&
         !options_.model_file.empty();
}

// "no trial has a finite val_accuracy; 3 x diverged (trial 1: val_accuracy is
// nan at step 2)"
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
  const auto reported = std::count_if(
      study_.trials.begin(), study_.trials.end(), [this](const Trial& trial) {
        return best_value(objective_, trial).has_value();
      });
  std::string text = fmt::format("no trial has a finite {}", objective_.metric);
  if (reported > 0) {
    text = fmt::format(
        "no trial has a result: {} reported {} but failed later, and reports "
        "of failed trials do not count (limits.failed_results: use)",
        reported, objective_.metric);
  }
  if (!why_over_.empty()) text += "; " + why_over_;
  for (const auto& [reason, cause] : causes) {
    text += fmt::format("; {} x {}", cause.count, reason);
    if (!cause.example.empty()) text += fmt::format(" ({})", cause.example);
  }
  return text;
}

// A resumed study whose model was made already, and is still of its best point.
bool Conductor::final_is_done(const Trial& best) {
  auto result = decode_final_result(records_.final_json());
  if (!result || result->best != best.id || result->final_trial == 0 ||
      !std::filesystem::exists(result->model)) {
    return false;
  }
  outcome_.final_trial = result->final_trial;
  outcome_.final_metrics = result->metrics;
  result->why = why_over_;  // of this search, not of an earlier one
  records_.set_final_json(encode_final_result(*result));
  end(StudyState::finished, why_over_);
  return true;
}

void Conductor::begin_final(const Trial& best) {
  phase_ = Phase::final;
  retry_.clear();
  pending_.clear();
  finals_.clear();
  winner_ = 0;
  winner_step_ = 0;
  study_.state = StudyState::running;
  const size_t count =
      static_cast<size_t>(std::max(1, study_.recipe.final_training.seeds));
  // An interrupted one goes on if it trains the same point as long.
  for (Trial& trial : study_.trials) {
    if (trial.kind != TrialKind::final) continue;
    if (trial.state == TrialState::running) {
      records_.change(trial, TrialState::paused, Reason::resumed,
                      "its coordinator had ended");
    }
    const bool same = trial.point == best.point &&
                      trial.target_step == final_horizon() &&
                      trial.state != TrialState::failed;
    if (same && finals_.size() < count) finals_.push_back(trial.id);
  }
  while (finals_.size() < count) add_final(static_cast<int>(finals_.size()));
  for (const TrialId id : finals_) {
    Trial& trial = study_.trial(id);
    if (trial.steps() < final_horizon()) {
      retry_.insert(id);
    } else if (trial.state != TrialState::complete) {
      // Trained to the end, by the search or before an interruption.
      records_.change(trial, TrialState::complete, Reason::horizon,
                      "reached the horizon");
    }
  }
  changed_ = true;
}

void Conductor::add_final(int index) {
  const Trial& best = study_.trial(best_);
  const uint64_t seed =
      index == 0 ? best.seed
                 : mix_seed({best.seed, hash_text("final"), uint64_t(index)});
  Trial& trial = new_final(seed, final_horizon(),
                           fmt::format("final training of trial {}", best_),
                           fmt::format("trial {} is the best", best_));
  if (index == 0 && final_is_same_training()) {
    continue_search_training(trial, study_.trial(best_));
  }
  finals_.push_back(trial.id);
}

// Of the best point.
Trial& Conductor::new_final(uint64_t seed, int target_step,
                            const std::string& detail, const std::string& why) {
  const TrialId id = static_cast<TrialId>(study_.trials.size()) + 1;
  study_.trials.emplace_back();
  runs_.emplace_back();
  const Trial& best = study_.trial(best_);
  Trial& trial = study_.trial(id);
  trial.id = id;
  trial.kind = TrialKind::final;
  trial.point = best.point;
  trial.unit = best.unit;
  trial.seed = seed;
  trial.target_step = target_step;
  trial.created_ms = clock_.wall_ms();
  records_.change(trial, TrialState::waiting, Reason::proposed, detail);
  records_.decide(trial, DecisionMaker::coordinator, "final", why);
  return trial;
}

// The final training is what the search does with the same point and seed.
bool Conductor::final_is_same_training() const {
  const FinalSpec& spec = study_.recipe.final_training;
  return spec.data == FinalData::train && spec.epochs == 0;
}

// The search has trained this very model already, up to its checkpoint: the
// final training takes it from there, with its curve. The best step must be at
// hand, since it may be the one that is shipped: else, or where nothing can be
// copied, all is trained again from the start.
void Conductor::continue_search_training(Trial& final_trial,
                                         const Trial& best) {
  const int peak = best_report(objective_, best)->step;
  const bool kept = checkpoints_.holds_step(best.id, peak);
  const bool whole =
      !best.checkpoint.empty() && best.checkpoint_step == best.steps();
  const bool needs_peak =
      study_.recipe.final_training.keep == FinalKeep::best &&
      peak < best.steps();
  const bool from_end = whole && (kept || !needs_peak);
  const int steps = from_end ? best.steps() : peak;
  if (!from_end && !kept) return;
  if (!checkpoints_.copy(best.id, steps, !from_end, final_trial.id)) return;
  if (kept) checkpoints_.share_step(best.id, peak, final_trial.id);
  final_trial.checkpoint = checkpoints_.of(final_trial.id).string();
  final_trial.checkpoint_step = steps;
  copy_curve(best, steps, final_trial);
}

void Conductor::copy_curve(const Trial& from, int steps, Trial& to) {
  for (int step = 1; step <= steps; ++step) {
    StepReport copy = from.curve[size_t(step) - 1];
    copy.sequence = records_.next_sequence();
    records_.copy_report(to, copy);
    to.curve.push_back(std::move(copy));
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
  if (trial.steps() < final_horizon() || trial.id == winner_) return;
  records_.change(trial, TrialState::complete, Reason::horizon,
                  "reached the horizon");
  release(trial, true);
}

void Conductor::on_final_over(Trial& trial, const control::Ended& ended) {
  if (ended.outcome != control::Outcome::complete) return;  // advance_final
  FinalResult result;
  result.best = best_;
  result.final_trial = trial.id;
  result.step = winner_step_;
  result.metrics = trial.curve.at(size_t(winner_step_) - 1).metrics;
  for (const auto& [name, value] : ended.metrics) result.metrics[name] = value;
  result.model = options_.model_file.string();
  result.why = why_over_;
  result.chosen = chosen_;
  records_.change(trial, TrialState::complete, Reason::horizon,
                  fmt::format("step {} is tested and kept", winner_step_));
  outcome_.final_trial = trial.id;
  outcome_.final_metrics = result.metrics;
  records_.set_final_json(encode_final_result(result));
  for (const TrialId id : finals_) checkpoints_.forget_step(id);
  end(StudyState::finished, why_over_);
}

void Conductor::advance_final() {
  if (any_lease() || !retry_.empty()) return;
  if (winner_ == 0 && choose_model()) {
    retry_.insert(winner_);
    return;
  }
  std::string why = "it ended without a result";
  for (const TrialId id : finals_) {
    const Trial& trial = study_.trial(id);
    if (trial.state != TrialState::complete) why = trial.detail;
  }
  end(StudyState::interrupted,
      fmt::format("the search is finished (the best is trial {}), but its "
                  "final training failed: {}; `dtune resume` tries it again",
                  best_, why));
}

// All final trainings have ended: of those that were trained to the end, which
// step of which is shipped. False: there is none.
bool Conductor::choose_model() {
  const FinalSpec& spec = study_.recipe.final_training;
  const bool keeps_last = spec.keep == FinalKeep::last;
  std::optional<double> most;
  for (const TrialId id : finals_) {
    const Trial& trial = study_.trial(id);
    if (trial.state != TrialState::complete) continue;
    const StepReport* peak =
        keeps_last ? nullptr : best_report(objective_, trial);
    const auto value = peak == nullptr ? last_value(objective_, trial)
                                       : objective_value(objective_, *peak);
    if (winner_ != 0 && !(value && (!most || *value > *most))) continue;
    winner_ = id;
    winner_step_ = peak == nullptr ? trial.steps() : peak->step;
    most = value;
  }
  if (winner_ == 0) return false;
  const bool comparable = spec.data == FinalData::train && !keeps_last && most;
  const double searched = *best_value(objective_, study_.trial(best_));
  if (!comparable || searched <= *most || !choose_search_model()) {
    chosen_ = describe_choice();
  }
  return true;
}

// The search has had a better model, and its checkpoint is still there: it is
// shipped by a final trial that has nothing left to train.
bool Conductor::choose_search_model() {
  const int peak = best_report(objective_, study_.trial(best_))->step;
  const auto id = static_cast<TrialId>(study_.trials.size()) + 1;
  if (!checkpoints_.copy(best_, peak, /*from_kept=*/true, id)) return false;
  const Trial& trained = study_.trial(winner_);
  chosen_ = fmt::format(
      "{}; its final training reached {:.6g} only, so the search's own model "
      "is kept",
      describe_best(),
      best_report(objective_, trained)->metrics.at(objective_.metric));
  Trial& trial = new_final(study_.trial(best_).seed, peak,
                           fmt::format("model of trial {}", best_), chosen_);
  trial.checkpoint = checkpoints_.of(id).string();
  trial.checkpoint_step = peak;
  copy_curve(study_.trial(best_), peak, trial);
  winner_ = id;
  winner_step_ = peak;
  return true;
}

// "trial 4 has the best val_accuracy of the search, 0.983 at step 9 of 12".
std::string Conductor::describe_best() const {
  const StepReport& peak = *best_report(objective_, study_.trial(best_));
  return fmt::format(
      "trial {} has the best {} of the search, {:.6g} at step "
      "{} of {}",
      best_, objective_.metric, peak.metrics.at(objective_.metric), peak.step,
      study_.horizon);
}

std::string Conductor::describe_choice() const {
  const FinalSpec& spec = study_.recipe.final_training;
  const Trial& kept = study_.trial(winner_);
  const StepReport& report = kept.curve.at(size_t(winner_step_) - 1);
  const Trial& best = study_.trial(best_);
  const std::string start = describe_best();
  if (spec.data == FinalData::train_and_validation) {
    return start + "; trained again with the validation images";
  }
  if (spec.keep == FinalKeep::last) {
    return start + "; the last step is kept (final.keep)";
  }
  if (!objective_value(objective_, report)) return start;
  if (final_is_same_training() && kept.seed == best.seed &&
      winner_step_ == best_report(objective_, best)->step) {
    return winner_step_ < final_horizon()
               ? start + "; no step after it was better"
               : start;
  }
  return fmt::format("{}; its final training has {:.6g} at step {} of {}",
                     start, report.metrics.at(objective_.metric), winner_step_,
                     final_horizon());
}

void Conductor::finish_with_best(const std::string& why) {
  const Trial& best = study_.trial(best_);
  FinalResult result;
  result.best = best_;
  result.why = why;
  const StepReport& peak = *best_report(objective_, best);
  result.step = peak.step;
  result.metrics = peak.metrics;
  outcome_.final_metrics = result.metrics;
  records_.set_final_json(encode_final_result(result));
  end(StudyState::finished, why);
}

}  // namespace dtune
