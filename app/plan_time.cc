#include "app/plan_time.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/base/order_statistic.h"
#include "dtune/report/text.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

// Backward takes twice the arithmetic of forward: judging a sample costs a
// third of training on it.
constexpr double kJudgingShare = 1.0 / 3;

TrialAssignment trial_to_measure(const Recipe& recipe,
                                 const StudyCheck& check) {
  TrialAssignment assignment;
  assignment.study_id = "plan";
  assignment.trial = 1;
  assignment.attempt = 1;
  assignment.recipe = recipe;
  assignment.recipe.parallel = {};
  assignment.recipe.train.lr = 1e-6;  // cannot diverge; as fast as any other
  assignment.seed = recipe.seed;
  assignment.horizon = check.horizon;
  assignment.prepared_data = check.prepared_data;
  assignment.threads = check.slots.threads;
  assignment.deterministic = recipe.deterministic;
  return assignment;
}

// Of one that trains on all images.
double samples_of_step(const Recipe& recipe, const StudyCheck& check) {
  const TrainSpec& train = recipe.train;
  const auto images = double(check.data.training);
  if (trains_levels(recipe)) return train.epochs * images;
  return train.step_samples > 0 ? double(train.step_samples) : images;
}

struct Speed {
  double samples_per_second = 0;     // of training
  std::optional<double> whole_step;  // seconds, with its judging
};

// Trains until the step or the time is over.
Speed measure_speed(TrialSession& session, Duration most) {
  std::atomic<bool> stop = false;
  std::atomic<bool> done = false;
  std::exception_ptr failure;
  Speed speed;
  {
    const std::jthread trainer([&] {
      try {
        speed.whole_step = session.run_step(stop).seconds;
      } catch (const StepStopped&) {
      } catch (...) {
        failure = std::current_exception();
      }
      done = true;
    });
    const MonoTime until = system_clock().now() + most;
    double rate = 0;
    while (!done && (system_clock().now() < until || rate <= 0)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      rate = session.progress().samples_per_second;
    }
    speed.samples_per_second = session.progress().samples_per_second;
    stop = true;
  }
  if (failure) std::rethrow_exception(failure);
  return speed;
}

}  // namespace

std::optional<StepTime> step_time_of(const Study& study) {
  std::vector<double> seconds;
  int most_steps = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    most_steps = std::max(most_steps, trial.steps());
    for (const StepReport& report : trial.curve) {
      seconds.push_back((report.seconds + report.checkpoint_seconds) /
                        step_share(study.recipe, report.step, study.horizon));
    }
  }
  if (seconds.empty()) return std::nullopt;
  std::string source = fmt::format("{} step{} of this study", seconds.size(),
                                   seconds.size() == 1 ? "" : "s");
  return StepTime{upper_median(std::move(seconds)), std::move(source),
                  most_steps};
}

StepTime measure_step(const RecipeFile& file, const StudyCheck& check) {
  const Recipe& recipe = file.recipe();
  if (recipe.command) {
    throw Error(ErrorKind::config,
                "--measure: the recipe's command trains, and only 'dtune run' "
                "starts it (with --trials 1 'dtune plan' then knows its time)");
  }
  const auto runner = load_engine_for(recipe).make_runner(check.slots.threads);
  const auto session = runner->start(trial_to_measure(recipe, check));
  const Speed speed = measure_speed(*session, std::chrono::seconds(10));
  const double samples = samples_of_step(recipe, check);
  const double judged = kJudgingShare * double(check.data.validation);
  const double trained = samples * step_share(recipe, 1, check.horizon);
  const double rate = speed.whole_step
                          ? (trained + judged) / *speed.whole_step
                          : std::max(speed.samples_per_second, 1e-9);
  const double alone = (samples + judged) / rate;
  const int ranks = std::max(recipe.parallel.ranks, 1);
  std::string source = fmt::format(
      "measured: {} images/s", rate < 10 ? fmt::format("{:.2g}", rate)
                                         : format_count(std::llround(rate)));
  if (ranks > 1) source += fmt::format(" in one process, for {} ranks", ranks);
  return {alone / ranks, std::move(source)};
}

StudyTime study_time(const Recipe& recipe, const StudyCheck& check,
                     const StepTime& step) {
  const BudgetSpec& budget = recipe.budget;
  StudyTime time;
  const bool open = check.horizon >= kOpenHorizon;
  const double steps = share_until(recipe, check.horizon, check.horizon);
  time.training = step.seconds * (open ? std::max(step.most_steps, 1) : steps);
  time.at_once = std::max(check.slots.slots * check.slots.fused /
                              std::max(gang_members(recipe.parallel), 1),
                          1);
  const auto limit = [&time](double seconds) {
    time.search = std::min(time.search.value_or(seconds), seconds);
  };
  if (budget.trials > 0) {
    const int rounds = (budget.trials + time.at_once - 1) / time.at_once;
    limit(rounds * time.training);
  }
  if (budget.steps > 0) {
    limit(double(budget.steps) * step.seconds * steps / check.horizon /
          time.at_once);
  }
  if (budget.time.count() > 0) limit(to_seconds(budget.time));
  const FinalSpec& last = recipe.final_training;
  if (last.enabled && !recipe.command) {
    const double longer =
        last.epochs > 0 ? last.epochs / recipe.train.epochs : 1;
    const double whole = trains_levels(recipe) ? step.seconds : time.training;
    time.final_training = whole * longer * last.seeds;
  }
  return time;
}

}  // namespace dtune
