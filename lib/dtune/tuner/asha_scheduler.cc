#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/tuner/rung_ladder.h"
#include "dtune/tuner/schedulers.h"
#include "dtune/tuner/simple_rules.h"

namespace dtune {
namespace {

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
  explicit AshaScheduler(Rungs rungs) : rungs_(std::move(rungs)) {}

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override;
  Verdict judge(const Study& study, const Trial& trial, bool reached) override;
  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override;

 private:
  std::optional<Directive> promote(const Study& study) const;
  std::optional<Directive> promote_from(const Study& study, size_t bracket,
                                        size_t rung) const;
  std::string standing(size_t rank, size_t members, size_t bracket,
                       size_t rung) const;
  Directive bring_home(const Study& study, bool may_start) const;
  template <class May>
  const Trial* best_of(const Study& study, May may) const;
  const Trial* champion(const Study& study) const;
  const Trial* companion(const Study& study, const Trial& champion) const;
  double steps_per_trial() const;
  // What is to be expected of a bracket.
  struct Expected {
    std::vector<double> counts;  // of trials at each of its rungs
    double steps = 0;            // in all
  };
  Expected expect(double trials, size_t bracket) const;
  double trials_in(size_t bracket, double trials) const;
  std::vector<std::string> describe_shares(int horizon) const;

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
      const TrialId id = std::ssize(study.trials) + 1;
      directive.target_step = rungs_.first_step(id);
      directive.why = std::move(proposal->why);
      if (rungs_.brackets() > 1) {
        directive.why +=
            fmt::format("; bracket {}, first rung at step {}",
                        rungs_.bracket(id) + 1, directive.target_step);
      }
      return directive;
    }
  }
  return bring_home(study, may_start);
}

// Algorithm 2 of Li et al. 2018: from the highest rung down, the best trial
// that is among the first 1/eta and has not gone on yet.
std::optional<Directive> AshaScheduler::promote(const Study& study) const {
  for (size_t rung = rungs_.last(); rung-- > 0;) {
    const size_t there = std::min(rung + 1, rungs_.brackets());
    for (size_t bracket = 0; bracket < there; ++bracket) {
      if (auto directive = promote_from(study, bracket, rung)) return directive;
    }
  }
  return std::nullopt;
}

std::optional<Directive> AshaScheduler::promote_from(const Study& study,
                                                     size_t bracket,
                                                     size_t rung) const {
  const auto results = rungs_.results(study, curves_, bracket, rung);
  const size_t quota = rungs_.quota(results.size());
  for (size_t rank = 0; rank < quota; ++rank) {
    const Trial& trial = study.trial(results[rank].trial);
    if (trial.state != TrialState::paused || rungs_.reached(trial) != rung ||
        std::isinf(results[rank].value)) {
      continue;
    }
    return resume(trial, rungs_.next_step(trial),
                  standing(rank, results.size(), bracket, rung));
  }
  return std::nullopt;
}

std::string AshaScheduler::standing(size_t rank, size_t members, size_t bracket,
                                    size_t rung) const {
  const std::string where =
      rungs_.brackets() > 1 ? fmt::format(" of bracket {}", bracket + 1) : "";
  return fmt::format("rank {} of {} at step {}{}, the best {} go on", rank + 1,
                     members, rungs_.steps()[rung], where,
                     rungs_.quota(members));
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
  const size_t bracket = rungs_.bracket(trial.id);
  const auto results = rungs_.results(study, curves_, bracket, *rung);
  const auto place = std::find_if(
      results.begin(), results.end(),
      [&](const RungResult& result) { return result.trial == trial.id; });
  const bool promoted = rungs_.goes_on(results, trial.id);
  verdict.kind = promoted ? Verdict::Kind::go_on : Verdict::Kind::pause;
  verdict.reason = promoted ? Reason::promoted : Reason::rung;
  if (!promoted) verdict.target_step = 0;
  verdict.why =
      standing(size_t(place - results.begin()), results.size(), bracket, *rung);
  return verdict;
}

double AshaScheduler::steps_per_trial() const {
  const std::vector<double> steps(rungs_.steps().begin(), rungs_.steps().end());
  double sum = 0;
  for (size_t bracket = 0; bracket < rungs_.brackets(); ++bracket) {
    sum += rungs_.share(bracket) * average_cost(steps, bracket, rungs_.eta());
  }
  return sum;
}

// Of the first `trials` of a study those in the bracket.
double AshaScheduler::trials_in(size_t bracket, double trials) const {
  const auto looked_at = TrialId(std::min(trials, 10'000.0));
  int64_t count = 0;
  for (TrialId id = 1; id <= looked_at; ++id) {
    if (rungs_.bracket(id) == bracket) ++count;
  }
  return std::round(double(count) * trials / double(looked_at));
}

AshaScheduler::Expected AshaScheduler::expect(double trials,
                                              size_t bracket) const {
  Expected expected;
  int before = 0;
  for (size_t rung = bracket; rung <= rungs_.last(); ++rung) {
    expected.counts.push_back(trials);
    expected.steps += trials * (rungs_.steps()[rung] - before);
    before = rungs_.steps()[rung];
    trials = std::max(1.0, std::floor(trials / rungs_.eta()));
  }
  return expected;
}

std::vector<std::string> AshaScheduler::describe_plan(const Recipe& recipe,
                                                      int horizon) const {
  const double trials = expected_trials(recipe, steps_per_trial());
  if (trials == 0) return describe_shares(horizon);
  std::vector<std::string> plan;
  double total = 0;
  for (size_t bracket = 0; bracket < rungs_.brackets(); ++bracket) {
    const bool alone = rungs_.brackets() == 1;
    const double here = alone ? trials : trials_in(bracket, trials);
    if (here == 0) continue;
    const Expected expected = expect(here, bracket);
    total += expected.steps;
    std::string line = fmt::format("bracket {}: ", bracket + 1);
    for (size_t k = 0; k < expected.counts.size(); ++k) {
      const std::string rung = fmt::format(
          "{}{} to step {}", k == 0 ? "" : "about ",
          count_trials(expected.counts[k]), rungs_.steps()[bracket + k]);
      if (alone) plan.push_back(fmt::format("rung {}: {}", k + 1, rung));
      line += (k == 0 ? "" : ", ") + rung;
    }
    if (!alone) plan.push_back(std::move(line));
  }
  plan.push_back(fmt::format(
      "about {:.0f} steps in all, {:.0f}% of training {} to the end", total,
      100 * total / (trials * horizon), count_trials(trials)));
  return plan;
}

// Where the time alone bounds a study.
std::vector<std::string> AshaScheduler::describe_shares(int horizon) const {
  std::vector<std::string> plan;
  for (size_t bracket = 0; bracket < rungs_.brackets(); ++bracket) {
    const bool alone = rungs_.brackets() == 1;
    std::string line =
        fmt::format("bracket {}: {:.3g}% of the trials to step {}", bracket + 1,
                    100 * rungs_.share(bracket), rungs_.steps()[bracket]);
    if (alone) {
      plan.push_back(
          fmt::format("rung 1: every trial to step {}", rungs_.steps()[0]));
    }
    double share = 1;
    for (size_t rung = bracket + 1; rung <= rungs_.last(); ++rung) {
      share /= rungs_.eta();
      const std::string best = fmt::format("the best {:.3g}%", 100 * share);
      const int step = rungs_.steps()[rung];
      if (alone) {
        plan.push_back(
            fmt::format("rung {}: {} to step {}", rung + 1, best, step));
      }
      line += fmt::format(", {} of them to step {}", best, step);
    }
    if (!alone) plan.push_back(std::move(line));
  }
  plan.push_back(fmt::format(
      "about {:.3g} steps a trial on average, {:.0f}% of a full training; as "
      "many trials as the time allows",
      steps_per_trial(), 100 * steps_per_trial() / horizon));
  return plan;
}

// Null where the horizon is open, and the scheduler has no options to obey.
std::unique_ptr<Scheduler> fifo_if_open(const Recipe& recipe, int horizon) {
  if (horizon < kOpenHorizon) return nullptr;
  if (recipe.scheduler.options.empty()) {
    return make_fifo_scheduler(recipe, horizon);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("scheduler: {} needs the number of steps of a full training "
                  "(write command.steps: 20, or scheduler: fifo)",
                  recipe.scheduler.kind));
}

}  // namespace

std::unique_ptr<Scheduler> make_asha_scheduler(const Recipe& recipe,
                                               int horizon) {
  Rungs rungs = asha_ladder(recipe, horizon);
  if (auto fifo = fifo_if_open(recipe, horizon)) return fifo;
  return std::make_unique<AshaScheduler>(std::move(rungs));
}

std::unique_ptr<Scheduler> make_hyperband_scheduler(const Recipe& recipe,
                                                    int horizon) {
  Rungs rungs = hyperband_ladder(recipe, horizon);
  if (auto fifo = fifo_if_open(recipe, horizon)) return fifo;
  return std::make_unique<AshaScheduler>(std::move(rungs));
}

}  // namespace dtune
