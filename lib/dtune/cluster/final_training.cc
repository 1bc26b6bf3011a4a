#include "dtune/cluster/final_training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/random.h"

namespace dtune {

FinalTraining::FinalTraining(Study& study, Records& records, Incumbent& best,
                             const Clock& clock, FinalTrainingOptions options)
    : study_(study),
      records_(records),
      best_(best),
      clock_(clock),
      options_(std::move(options)) {}

bool FinalTraining::wanted() const {
  return study_.recipe.final_training.enabled && !study_.recipe.command &&
         !options_.model_file.empty();
}

int FinalTraining::horizon() const {
  if (options_.horizon > 0) return options_.horizon;
  const Recipe& recipe = study_.recipe;
  const double epochs = recipe.final_training.epochs;
  // Of levels the last is the whole training.
  if (trains_levels(recipe)) return is_same_training() ? study_.horizon : 1;
  if (epochs <= 0 || recipe.train.epochs <= 0) return study_.horizon;
  const double steps = study_.horizon * epochs / recipe.train.epochs;
  return std::max(1, static_cast<int>(std::ceil(steps - 1e-9)));
}

bool FinalTraining::is_same_training() const {
  const FinalSpec& spec = study_.recipe.final_training;
  return spec.data == FinalData::train && spec.epochs == 0;
}

const StepReport& FinalTraining::peak() const {
  return *best_report(study_.recipe.objective, best());
}

std::optional<FinalResult> FinalTraining::earlier_result() const {
  auto result = decode_final_result(records_.final_json());
  if (!result || result->best != best_.id() || result->final_trial == 0 ||
      !std::filesystem::exists(result->model)) {
    return std::nullopt;
  }
  return result;
}

std::vector<TrialId> FinalTraining::begin() {
  trials_.clear();
  chosen_ = 0;
  step_ = 0;
  const size_t count =
      static_cast<size_t>(std::max(1, study_.recipe.final_training.seeds));
  // An interrupted one goes on if it trains the same point as long.
  for (Trial& trial : study_.trials) {
    if (trial.kind != TrialKind::final) continue;
    if (trial.state == TrialState::running) {
      records_.change(trial, TrialState::paused, Reason::resumed,
                      "its coordinator had ended");
    }
    const bool same = trial.point == best().point &&
                      trial.target_step == horizon() &&
                      trial.state != TrialState::failed;
    if (same && trials_.size() < count) trials_.push_back(trial.id);
  }
  while (trials_.size() < count) add(static_cast<int>(trials_.size()));
  std::vector<TrialId> left;
  for (const TrialId id : trials_) {
    Trial& trial = study_.trial(id);
    if (trial.steps() < horizon()) {
      left.push_back(id);
    } else if (trial.state != TrialState::complete) {
      // Trained to the end, by the search or before an interruption.
      records_.change(trial, TrialState::complete, Reason::horizon,
                      "reached the horizon");
    }
  }
  return left;
}

void FinalTraining::add(int index) {
  const uint64_t own = best().seed;
  const uint64_t seed =
      index == 0 ? own : mix_seed({own, hash_text("final"), uint64_t(index)});
  Trial& trial = new_trial(
      seed, horizon(), fmt::format("final training of trial {}", best_.id()),
      fmt::format("trial {} is the best", best_.id()));
  if (index == 0 && is_same_training()) continue_search_training(trial);
  trials_.push_back(trial.id);
}

// Of the best point.
Trial& FinalTraining::new_trial(uint64_t seed, int target_step,
                                const std::string& detail,
                                const std::string& why) {
  const TrialId id = static_cast<TrialId>(study_.trials.size()) + 1;
  study_.trials.emplace_back();
  Trial& trial = study_.trial(id);
  trial.id = id;
  trial.kind = TrialKind::final;
  trial.point = best().point;
  trial.unit = best().unit;
  trial.seed = seed;
  trial.target_step = target_step;
  trial.created_ms = clock_.wall_ms();
  records_.change(trial, TrialState::waiting, Reason::proposed, detail);
  records_.decide(trial, DecisionMaker::coordinator, "final", why);
  return trial;
}

// The search has trained this very model already, up to its checkpoint: the
// final training takes it from there, with its curve. The best step must be at
// hand, since it may be the one that is shipped: else, or where nothing can be
// copied, all is trained again from the start.
void FinalTraining::continue_search_training(Trial& trial) {
  Checkpoints& files = best_.checkpoints();
  const Trial& from = best();
  const bool kept = files.holds_step(from.id, peak().step);
  const bool whole =
      !from.checkpoint.empty() && from.checkpoint_step == from.steps();
  const bool needs_peak =
      study_.recipe.final_training.keep == FinalKeep::best &&
      peak().step < from.steps();
  const bool from_end = whole && (kept || !needs_peak);
  const int steps = from_end ? from.steps() : peak().step;
  if (!from_end && !kept) return;
  if (!files.copy(from.id, steps, !from_end, trial.id)) return;
  if (kept) files.share_step(from.id, peak().step, trial.id);
  trial.checkpoint = files.of(trial.id).string();
  trial.checkpoint_step = steps;
  copy_curve(steps, trial);
}

// The best trial's.
void FinalTraining::copy_curve(int steps, Trial& to) {
  for (int step = 1; step <= steps; ++step) {
    StepReport copy = best().curve[size_t(step) - 1];
    copy.sequence = records_.next_sequence();
    records_.copy_report(to, copy);
    to.curve.push_back(std::move(copy));
  }
}

bool FinalTraining::is_trained(const Trial& trial) const {
  return trial.steps() >= horizon() && trial.id != chosen_;
}

bool FinalTraining::choose() {
  const ObjectiveSpec& objective = study_.recipe.objective;
  const FinalSpec& spec = study_.recipe.final_training;
  const bool keeps_last = spec.keep == FinalKeep::last;
  std::optional<double> most;
  for (const TrialId id : trials_) {
    const Trial& trial = study_.trial(id);
    if (trial.state != TrialState::complete) continue;
    const StepReport* kept =
        keeps_last ? nullptr : best_report(objective, trial);
    const auto value = kept == nullptr ? last_value(objective, trial)
                                       : objective_value(objective, *kept);
    if (chosen_ != 0 && !(value && (!most || *value > *most))) continue;
    chosen_ = id;
    step_ = kept == nullptr ? trial.steps() : kept->step;
    most = value;
  }
  if (chosen_ == 0) return false;
  const bool comparable = spec.data == FinalData::train && !keeps_last && most;
  const double searched = *best_value(objective, best());
  if (!comparable || searched <= *most || !choose_search_model()) {
    why_ = describe_choice();
  }
  return true;
}

// The search has had a better model, and its checkpoint is still there: it is
// shipped by a final trial that has nothing left to train.
bool FinalTraining::choose_search_model() {
  const ObjectiveSpec& objective = study_.recipe.objective;
  const int step = peak().step;
  const auto id = static_cast<TrialId>(study_.trials.size()) + 1;
  if (!best_.checkpoints().copy(best_.id(), step, /*from_kept=*/true, id)) {
    return false;
  }
  const StepReport& reached = *best_report(objective, study_.trial(chosen_));
  why_ = fmt::format(
      "{}; its final training reached {:.6g} only, so the search's own model "
      "is kept",
      describe_best(), reached.metrics.at(objective.metric));
  Trial& trial = new_trial(best().seed, step,
                           fmt::format("model of trial {}", best_.id()), why_);
  trial.checkpoint = best_.checkpoints().of(id).string();
  trial.checkpoint_step = step;
  copy_curve(step, trial);
  chosen_ = id;
  step_ = step;
  return true;
}

// "trial 4 has the best val_accuracy of the search, 0.983 at step 9 of 12".
std::string FinalTraining::describe_best() const {
  if (!winner_.empty()) return winner_;
  const std::string& metric = study_.recipe.objective.metric;
  return fmt::format(
      "trial {} has the best {} of the search, {:.6g} at step {} of {}",
      best_.id(), metric, peak().metrics.at(metric), peak().step,
      study_.horizon);
}

std::string FinalTraining::describe_choice() const {
  const ObjectiveSpec& objective = study_.recipe.objective;
  const FinalSpec& spec = study_.recipe.final_training;
  const Trial& kept = study_.trial(chosen_);
  const StepReport& report = kept.curve.at(size_t(step_) - 1);
  std::string start = describe_best();
  if (spec.data == FinalData::train_and_validation) {
    return start + "; trained again with the validation images";
  }
  if (spec.keep == FinalKeep::last) {
    return start + "; the last step is kept (final.keep)";
  }
  if (!objective_value(objective, report)) return start;
  if (is_same_training() && kept.seed == best().seed && step_ == peak().step) {
    return step_ < horizon() ? start + "; no step after it was better" : start;
  }
  return fmt::format("{}; its final training has {:.6g} at step {} of {}",
                     start, report.metrics.at(objective.metric), step_,
                     horizon());
}

std::string FinalTraining::cause_of_failure() const {
  std::string why = "it ended without a result";
  for (const TrialId id : trials_) {
    const Trial& trial = study_.trial(id);
    if (trial.state != TrialState::complete) why = trial.detail;
  }
  return why;
}

int FinalTraining::target(const Trial& trial) const {
  return trial.id == chosen_ ? step_ : horizon();
}

int FinalTraining::resume_step(const Trial& trial) const {
  return trial.id == chosen_ ? step_ : trial.steps();
}

std::filesystem::path FinalTraining::checkpoint(const Trial& trial) const {
  const Checkpoints& files = best_.checkpoints();
  const bool earlier = trial.id == chosen_ && step_ < trial.steps();
  return earlier ? files.of_step(trial.id, step_) : files.of(trial.id);
}

void FinalTraining::describe(const Trial& trial,
                             control::Assign& assign) const {
  assign.horizon = trial.target_step;
  assign.model_file = options_.model_file.string();
  assign.finish = trial.id == chosen_;
  assign.origin = best_.id();
  assign.chosen = why_;
}

int FinalTraining::running() const {
  return chosen_ != 0 ? 1 : static_cast<int>(trials_.size());
}

FinalResult FinalTraining::finish(Trial& trial,
                                  const std::map<std::string, double>& tested,
                                  const std::string& why) {
  FinalResult result;
  result.best = best_.id();
  result.final_trial = trial.id;
  result.step = step_;
  result.metrics = trial.curve.at(size_t(step_) - 1).metrics;
  for (const auto& [name, value] : tested) result.metrics[name] = value;
  result.model = options_.model_file.string();
  result.why = why;
  result.chosen = why_;
  records_.change(trial, TrialState::complete, Reason::horizon,
                  fmt::format("step {} is tested and kept", step_));
  records_.set_final_json(encode_final_result(result));
  for (const TrialId id : trials_) best_.checkpoints().forget_step(id);
  return result;
}

}  // namespace dtune
