#include "dtune/train/assignment.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace dtune {

int64_t StepPlan::end_of(int number) const {
  return number >= horizon ? total : std::min(number * step, total);
}

StepPlan plan_steps(const TrialAssignment& assignment, const PreparedData& data,
                    int64_t count) {
  const TrainSpec& train = assignment.recipe.train;
  const int64_t usual = data.count(Split::train);
  const int64_t step = train.step_samples > 0 ? train.step_samples : usual;
  StepPlan plan;
  plan.step = (step * count + usual - 1) / usual;
  plan.total = std::max<int64_t>(
      1, std::llround(epochs_of(assignment) * static_cast<double>(count)));
  plan.horizon = assignment.horizon;
  return plan;
}

bool trains_on_validation(const TrialAssignment& assignment) {
  return assignment.kind == TrialKind::final &&
         assignment.recipe.final_training.data ==
             FinalData::train_and_validation;
}

double epochs_of(const TrialAssignment& assignment) {
  const double own = assignment.recipe.final_training.epochs;
  if (assignment.kind == TrialKind::final && own > 0) return own;
  return assignment.recipe.train.epochs;
}

TrainerOptions trainer_options(const TrialAssignment& assignment,
                               at::Device device) {
  return {.seed = assignment.seed,
          .epochs = epochs_of(assignment),
          .device = device,
          .with_validation = trains_on_validation(assignment)};
}

Computing computing_of(const TrialAssignment& assignment) {
  return {.threads = assignment.threads,
          .deterministic =
              assignment.deterministic || assignment.recipe.deterministic,
          .tf32 = allows_tf32(assignment.recipe.train.precision)};
}

CheckpointOwner owner_of(const TrialAssignment& assignment) {
  return {assignment.study_id, assignment.trial, assignment.seed};
}

namespace {

// Where the recipe alone does not say how many classes there are.
void check_threshold(const TrialAssignment& assignment,
                     const PreparedData& data) {
  if (assignment.recipe.final_training.threshold == ThresholdRule::half) return;
  if (data.classes() != 2) {
    throw Error(ErrorKind::config,
                fmt::format("final.threshold: is for two classes, but the data "
                            "have {} (remove it)",
                            data.classes()));
  }
  if (data.count(Split::validation) == 0) {
    throw Error(ErrorKind::config,
                "final.threshold: the validation split is empty, on which it "
                "is chosen (set data.validation, or remove it)");
  }
}

}  // namespace

void check_splits(const TrialAssignment& assignment, const PreparedData& data) {
  const std::string& metric = assignment.recipe.objective.metric;
  if (data.count(Split::train) == 0) {
    throw Error(ErrorKind::data,
                "data: the training split is empty (check "
                "data.path and data.limit)");
  }
  if (assignment.kind == TrialKind::search && metric.starts_with("val_") &&
      data.count(Split::validation) == 0) {
    throw Error(ErrorKind::config,
                fmt::format("data.validation: the validation split is empty, "
                            "but the objective is {} (set data.validation to a "
                            "share or a number of samples)",
                            metric));
  }
  check_threshold(assignment, data);
}

void fail_not_finite(const TrialAssignment& assignment) {
  throw TrialFailure(
      Reason::diverged,
      fmt::format("diverged: the network's outputs are not finite any more, at "
                  "a learning rate of {:.3g} (use a smaller lr, a "
                  "warm-up or clip_norm)",
                  assignment.recipe.train.lr));
}

}  // namespace dtune
