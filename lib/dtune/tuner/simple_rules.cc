#include "dtune/tuner/simple_rules.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/tuner/curves.h"

namespace dtune {
namespace {

Directive make_directive(Directive::Kind kind, std::string why) {
  Directive directive;
  directive.kind = kind;
  directive.why = std::move(why);
  return directive;
}

}  // namespace

Directive run_all_to(int target, const Study& study, Sampler& sampler,
                     int64_t decision, bool may_start) {
  if (const Trial* trial = interrupted_trial(study, target)) {
    Directive directive = make_directive(
        Directive::Kind::resume,
        fmt::format("was stopped after step {}", trial->steps()));
    directive.trial = trial->id;
    directive.target_step = std::max(target, trial->target_step);
    return directive;
  }
  if (may_start) {
    if (auto proposal = sampler.propose(study, decision)) {
      Directive directive =
          make_directive(Directive::Kind::start, std::move(proposal->why));
      directive.point = std::move(proposal->point);
      directive.target_step = target;
      return directive;
    }
  }
  if (any_active(study)) {
    return make_directive(Directive::Kind::wait, "the last trials are running");
  }
  return make_directive(
      Directive::Kind::finish,
      may_start ? "the space has no further point" : "no trial is left to run");
}

double expected_trials(const Recipe& recipe, double steps_per_trial) {
  double trials = recipe.budget.trials;
  if (recipe.budget.steps > 0) {
    const double fitting = std::max(
        1.0, std::floor(double(recipe.budget.steps) / steps_per_trial));
    trials = trials > 0 ? std::min(trials, fitting) : fitting;
  }
  if (const auto points = recipe.space.cardinality()) {
    const double all = static_cast<double>(*points);
    trials = trials > 0 ? std::min(trials, all) : all;
  }
  return trials;
}

std::string count_trials(double trials) {
  return trials == 1 ? "1 trial" : fmt::format("{:.0f} trials", trials);
}

std::vector<std::string> plan_to_horizon(const Recipe& recipe, int horizon) {
  if (horizon >= kOpenHorizon) {
    const double trials = expected_trials(recipe, 1);
    return {fmt::format(
        "{}to the end of the program each (the recipe does not "
        "say how many steps it has)",
        trials > 0 && recipe.budget.steps == 0 ? count_trials(trials) + " "
                                               : "trials ")};
  }
  const double trials = expected_trials(recipe, horizon);
  if (trials == 0) {
    return {fmt::format("every trial to step {}, as many as the time allows",
                        horizon)};
  }
  return {fmt::format("{} to step {}: {:.0f} steps in all",
                      count_trials(trials), horizon, trials * horizon)};
}

}  // namespace dtune
