#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/rungs.h"
#include "dtune/tuner/schedulers.h"
#include "dtune/tuner/simple_rules.h"

namespace dtune {
namespace {

struct Settings {
  int eta = 3;
  int min_steps = 1;
};

Settings read_settings(const Recipe& recipe, int horizon) {
  const OptionReader options("scheduler", "asha", recipe.scheduler.options,
                             {"mode", "eta", "min_steps"});
  const std::string mode =
      options.word("mode", {"standard", "aggressive", "conservative"});
  const int share = mode == "aggressive" ? 24 : mode == "standard" ? 12 : 6;
  const int eta = mode == "aggressive" ? 4 : mode == "standard" ? 3 : 2;
  return {options.integer("eta", 2, 100).value_or(eta),
          options.integer("min_steps", 1, horizon)
              .value_or((horizon + share - 1) / share)};
}

Directive resume(const Trial& trial, int target, std::string why) {
  Directive directive;
  directive.kind = Directive::Kind::resume;
  directive.trial = trial.id;
  directive.target_step = target;
  directive.why = std::move(why);
  return directive;
}

class AshaScheduler final : public Scheduler {
 public:
  AshaScheduler(const Settings& settings, int horizon)
      : settings_(settings),
        rungs_(asha_rungs(horizon, settings.eta, settings.min_steps),
               settings.eta) {}

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override;
  Verdict judge(const Study& study, const Trial& trial, bool reached) override;
  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override;

 private:
  std::optional<Directive> promote(const Study& study) const;
  Directive bring_home(const Study& study, bool may_start) const;
  template <class May>
  const Trial* best_of(const Study& study, May may) const;
  const Trial* champion(const Study& study) const;
  const Trial* companion(const Study& study, const Trial& champion) const;
  double steps_per_trial() const;

  Settings settings_;
  Rungs rungs_;
  CurveBook curves_;
};

Directive AshaScheduler::next(const Study& study, Sampler& sampler,
                              int64_t decision, bool may_start) {
  if (const Trial* trial = interrupted_trial(study)) {
    return resume(*trial, trial->target_step,
                  fmt::format("was stopped after step {}", trial->steps()));
  }
  curves_.update(study);
  if (auto promotion = promote(study)) return *std::move(promotion);
  if (may_start) {
    if (auto proposal = sampler.propose(study, decision)) {
      Directive directive;
      directive.kind = Directive::Kind::start;
      directive.point = std::move(proposal->point);
      directive.target_step = rungs_.steps().front();
      directive.why = std::move(proposal->why);
      return directive;
    }
  }
  return bring_home(study, may_start);
}

// Algorithm 2 of Li et al. 2018: from the highest rung down, the best trial
// that is among the first 1/eta and has not gone on yet.
std::optional<Directive> AshaScheduler::promote(const Study& study) const {
  for (size_t rung = rungs_.last(); rung-- > 0;) {
    const auto results = rungs_.results(study, curves_, rung);
    const size_t quota = rungs_.quota(results.size());
    for (size_t rank = 0; rank < quota; ++rank) {
      const Trial& trial = study.trial(results[rank].trial);
      if (trial.state != TrialState::paused || rungs_.reached(trial) != rung ||
          std::isinf(results[rank].value)) {
        continue;
      }
      return resume(
          trial, rungs_.next_step(trial),
          fmt::format("rank {} of {} at step {}, the best {} go on", rank + 1,
                      results.size(), rungs_.steps()[rung], quota));
    }
  }
  return std::nullopt;
}

// The best trial of the search that `may` be it; null where none of these has a
// finite value.
template <class May>
const Trial* AshaScheduler::best_of(const Study& study, May may) const {
  const Trial* best = nullptr;
  double best_so_far = 0;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || !may(trial)) continue;
    const auto value = curves_.best_until(trial.id, trial.steps());
    if (value && (best == nullptr || *value > best_so_far)) {
      best = &trial;
      best_so_far = *value;
    }
  }
  return best;
}

// The best trial of those that have ended well or still can.
const Trial* AshaScheduler::champion(const Study& study) const {
  return best_of(study, [](const Trial& trial) {
    return !is_terminal(trial.state) || trial.state == TrialState::complete;
  });
}

// The best paused trial whose way to its next rung is no longer than the
// champion's way to the horizon.
const Trial* AshaScheduler::companion(const Study& study,
                                      const Trial& champion) const {
  const int room = rungs_.steps().back() - champion.steps();
  return best_of(study, [&](const Trial& trial) {
    return trial.state == TrialState::paused &&
           rungs_.next_step(trial) - trial.steps() <= room;
  });
}

Directive AshaScheduler::bring_home(const Study& study, bool may_start) const {
  const Trial* best = champion(study);
  if (best != nullptr && best->state == TrialState::paused) {
    return resume(*best, rungs_.next_step(*best),
                  "the best so far goes on to the horizon");
  }
  const bool best_runs = best != nullptr && best->state != TrialState::complete;
  if (best_runs) {
    if (const Trial* other = companion(study, *best)) {
      return resume(*other, rungs_.next_step(*other),
                    fmt::format("no new trial may start; next best while "
                                "trial {} runs",
                                best->id));
    }
  }
  Directive directive;
  const bool active = any_active(study);
  directive.kind = active ? Directive::Kind::wait : Directive::Kind::finish;
  directive.why = active      ? "the last trials are running"
                  : best      ? "the best trial has reached the horizon"
                  : may_start ? "the space has no further point"
                              : "no trial is left to run";
  return directive;
}

Verdict AshaScheduler::judge(const Study& study, const Trial& trial,
                             bool reached) {
  Verdict verdict;
  if (!reached) return verdict;
  verdict.target_step = rungs_.next_step(trial);
  const std::optional<size_t> rung = rungs_.reached(trial);
  if (!rung) return verdict;
  curves_.update(study);
  const auto results = rungs_.results(study, curves_, *rung);
  const auto place = std::find_if(
      results.begin(), results.end(),
      [&](const RungResult& result) { return result.trial == trial.id; });
  const bool promoted = rungs_.goes_on(results, trial.id);
  verdict.kind = promoted ? Verdict::Kind::go_on : Verdict::Kind::pause;
  verdict.reason = promoted ? Reason::promoted : Reason::rung;
  if (!promoted) verdict.target_step = 0;
  verdict.why =
      fmt::format("rank {} of {} at step {}, the best {} go on",
                  place - results.begin() + 1, results.size(),
                  rungs_.steps()[*rung], rungs_.quota(results.size()));
  return verdict;
}

// What a trial costs on average: a share eta^-k goes on to rung k.
double AshaScheduler::steps_per_trial() const {
  double sum = 0;
  double share = 1;
  int before = 0;
  for (const int step : rungs_.steps()) {
    sum += share * (step - before);
    before = step;
    share /= settings_.eta;
  }
  return sum;
}

std::vector<std::string> AshaScheduler::describe_plan(const Recipe& recipe,
                                                      int horizon) const {
  const double trials = expected_trials(recipe, steps_per_trial());
  std::vector<std::string> plan;
  double share = 1;
  double count = trials;
  double total = 0;
  int before = 0;
  for (size_t k = 0; k < rungs_.steps().size(); ++k) {
    const int step = rungs_.steps()[k];
    const std::string who =
        trials > 0 ? (k == 0 ? "" : "about ") + count_trials(count)
        : k == 0   ? "every trial"
                   : fmt::format("the best {:.3g}%", 100 * share);
    plan.push_back(fmt::format("rung {}: {} to step {}", k + 1, who, step));
    total += count * (step - before);
    before = step;
    share /= settings_.eta;
    count = std::max(1.0, std::floor(count / settings_.eta));
  }
  if (trials > 0) {
    plan.push_back(fmt::format(
        "about {:.0f} steps in all, {:.0f}% of training {} to the end", total,
        100 * total / (trials * horizon), count_trials(trials)));
  } else {
    plan.push_back(fmt::format(
        "about {:.3g} steps a trial on average, {:.0f}% of a full training; as "
        "many trials as the time allows",
        steps_per_trial(), 100 * steps_per_trial() / horizon));
  }
  return plan;
}

}  // namespace

std::vector<int> asha_rungs(int horizon, int eta, int min_steps) {
  std::vector<int> steps;
  for (int64_t step = min_steps; step * 5 < int64_t{horizon} * 4; step *= eta) {
    steps.push_back(static_cast<int>(step));
  }
  steps.push_back(horizon);
  return steps;
}

std::unique_ptr<Scheduler> make_asha_scheduler(const Recipe& recipe,
                                               int horizon) {
  const Settings settings = read_settings(recipe, horizon);
  if (horizon < kOpenHorizon) {
    return std::make_unique<AshaScheduler>(settings, horizon);
  }
  if (recipe.scheduler.options.empty()) {
    return make_fifo_scheduler(recipe, horizon);
  }
  throw Error(ErrorKind::config,
              "scheduler: asha needs the number of steps of a full training "
              "(write command.steps: 20, or scheduler: fifo)");
}

}  // namespace dtune
