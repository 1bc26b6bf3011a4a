#include <algorithm>

#include <fmt/format.h>

#include "dtune/tuner/curves.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/schedulers.h"
#include "dtune/tuner/simple_rules.h"

namespace dtune {
namespace {

// REQUIRES: values is not empty. The mean of the two middle ones where their
// number is even.
double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

class MedianScheduler final : public Scheduler {
 public:
  MedianScheduler(const Recipe& recipe, int horizon) : horizon_(horizon) {
    const OptionReader options("scheduler", recipe.scheduler.options);
    const int eighth = horizon >= kOpenHorizon ? 1 : (horizon + 7) / 8;
    grace_steps_ = options.integer("grace_steps", 0, kOpenHorizon)
                       .value_or(std::max(1, eighth));
    min_trials_ = options.integer("min_trials", 1, 1'000'000).value_or(4);
  }

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override {
    return run_all_to(horizon_, study, sampler, decision, may_start);
  }

  Verdict judge(const Study& study, const Trial& trial, bool reached) override {
    Verdict verdict;
    if (reached) verdict.target_step = horizon_;
    const int step = trial.steps();
    if (step <= grace_steps_) return verdict;
    curves_.update(study);
    const std::vector<double> means = others_at(study, trial, step);
    if (means.size() < size_t(min_trials_)) return verdict;
    const double bar = median(means);
    const auto best = curves_.best_until(trial.id, step);
    if (best && *best >= bar) return verdict;
    return cut(study, step, best, bar, means.size());
  }

  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override {
    std::vector<std::string> plan = plan_to_horizon(recipe, horizon);
    plan.push_back(fmt::format(
        "less those cut: after step {}, a trial whose best is below the median "
        "of the running means of at least {} others",
        grace_steps_, min_trials_));
    return plan;
  }

 private:
  std::vector<double> others_at(const Study& study, const Trial& trial,
                                int step) const {
    std::vector<double> means;
    for (const Trial& other : study.trials) {
      const bool there = other.kind == TrialKind::search &&
                         other.id != trial.id && other.steps() >= step;
      if (!there) continue;
      if (const auto mean = curves_.mean_until(other.id, step)) {
        means.push_back(*mean);
      }
    }
    return means;
  }

  static Verdict cut(const Study& study, int step, std::optional<double> best,
                     double bar, size_t others) {
    const ObjectiveSpec& objective = study.recipe.objective;
    const double sign = objective.goal == Goal::maximize ? 1 : -1;
    Verdict verdict;
    verdict.kind = Verdict::Kind::cut;
    verdict.reason = Reason::median;
    verdict.why = fmt::format(
        "best {} by step {} is {}, the median of {} others' means {:.4g}",
        objective.metric, step,
        best ? fmt::format("{:.4g}", sign * *best) : "not finite", others,
        sign * bar);
    return verdict;
  }

  int horizon_;
  int grace_steps_ = 1;
  int min_trials_ = 4;
  CurveBook curves_;
};

}  // namespace

std::unique_ptr<Scheduler> make_median_scheduler(const Recipe& recipe,
                                                 int horizon) {
  return std::make_unique<MedianScheduler>(recipe, horizon);
}

}  // namespace dtune
