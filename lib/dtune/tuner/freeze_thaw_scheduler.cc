#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/tuner/candidate_search.h"
#include "dtune/tuner/curves.h"
#include "dtune/tuner/schedulers.h"
#include "dtune/tuner/surrogate_model.h"

namespace dtune {
namespace {

// What a decision of MFPI-random draws.
struct Draw {
  int horizon = 1;      // steps ahead
  double ambition = 0;  // share of the gap between the best and 1
};

Draw draw(uint64_t seed, int64_t decision, int horizon) {
  Rng rng(mix_seed({seed, hash_text("freeze-thaw"), uint64_t(decision)}));
  return {1 + static_cast<int>(rng.below(uint64_t(horizon))),
          std::pow(10.0, rng.uniform(-4, -1))};
}

class FreezeThawScheduler final : public Scheduler {
 public:
  FreezeThawScheduler(const Recipe& recipe, int horizon,
                      std::shared_ptr<const CubePrior> prior, double epsilon)
      : horizon_(horizon),
        epsilon_(epsilon),
        model_(recipe, horizon, std::move(prior)) {}

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override;
  Verdict judge(const Study& study, const Trial& trial, bool reached) override;
  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override;

 private:
  struct Choice {
    const Trial* trial = nullptr;
    double score = -INFINITY;
  };
  Directive start_first(const Study& study, Sampler& sampler,
                        int64_t decision) const;
  Choice best_paused(const Study& study, const Draw& d, double threshold,
                     std::span<const ModelQuery> pending) const;
  std::vector<ModelQuery> pending(const Study& study) const;
  Directive resume(const Trial& trial, const std::string& why) const;
  Directive start(Point point, const std::string& why) const;
  bool worth_going_on(const Study& study) const;

  int horizon_;
  double epsilon_;
  SurrogateModel model_;
};

Directive FreezeThawScheduler::resume(const Trial& trial,
                                      const std::string& why) const {
  Directive d;
  d.kind = Directive::Kind::resume;
  d.trial = trial.id;
  d.target_step = model_.next_step(trial.steps());
  d.why = why;
  return d;
}

Directive FreezeThawScheduler::start(Point point,
                                     const std::string& why) const {
  Directive d;
  d.kind = Directive::Kind::start;
  d.point = std::move(point);
  d.target_step = model_.ladder().front();
  d.why = why;
  return d;
}

// The trials that slots are working on, at the step that they will report.
std::vector<ModelQuery> FreezeThawScheduler::pending(const Study& study) const {
  std::vector<ModelQuery> queries;
  for (const Trial& trial : study.trials) {
    const bool active = trial.state == TrialState::running ||
                        trial.state == TrialState::waiting;
    if (trial.kind != TrialKind::search || !active) continue;
    queries.push_back({trial.unit, model_.next_step(trial.steps())});
  }
  return queries;
}

Directive FreezeThawScheduler::start_first(const Study& study, Sampler& sampler,
                                           int64_t decision) const {
  if (study.trials.empty()) {
    if (const auto unit = model_.prior_best()) {
      Point point = study.recipe.space.decode(*unit);
      if (study.recipe.space.satisfies(point)) {
        return start(std::move(point), "the best point of recorded studies");
      }
    }
  }
  if (auto proposal = sampler.propose(study, decision)) {
    return start(std::move(proposal->point), proposal->why);
  }
  return {};
}

FreezeThawScheduler::Choice FreezeThawScheduler::best_paused(
    const Study& study, const Draw& d, double threshold,
    std::span<const ModelQuery> pending) const {
  std::vector<const Trial*> trials;
  std::vector<ModelQuery> queries;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.state != TrialState::paused ||
        trial.steps() >= horizon_) {
      continue;
    }
    const int step = std::max(
        model_.next_step(trial.steps()),
        model_.next_step(std::min(horizon_, trial.steps() + d.horizon) - 1));
    trials.push_back(&trial);
    queries.push_back({trial.unit, step});
  }
  const std::vector<double> scores =
      model_.log_tail(queries, threshold, pending);
  Choice choice;
  for (size_t i = 0; i < trials.size(); ++i) {
    if (scores[i] > choice.score) choice = {trials[i], scores[i]};
  }
  return choice;
}

// Once no trial may be started: some paused trial may still beat the best, or
// the best itself has not been trained to the end.
bool FreezeThawScheduler::worth_going_on(const Study& study) const {
  const Trial* best = incumbent(study);
  if (best == nullptr) return false;
  if (best->state == TrialState::paused && best->steps() < horizon_) {
    return true;
  }
  const Choice last =
      best_paused(study, {horizon_, 0}, model_.best(), pending(study));
  return last.trial != nullptr && last.score > std::log(epsilon_);
}

Directive FreezeThawScheduler::next(const Study& study, Sampler& sampler,
                                    int64_t decision, bool may_start) {
  if (const Trial* trial = interrupted_trial(study)) {
    Directive d = resume(*trial, "was stopped on the way");
    d.target_step = trial->target_step;
    return d;
  }
  model_.update(study);
  Directive none;
  none.kind =
      any_active(study) ? Directive::Kind::wait : Directive::Kind::finish;
  if (model_.empty()) {
    if (!may_start) return none;
    Directive first = start_first(study, sampler, decision);
    return first.kind == Directive::Kind::start ? first : none;
  }
  const Draw d = draw(study.recipe.seed, decision, horizon_);
  const double threshold = model_.best() + d.ambition * (1 - model_.best());
  const std::vector<ModelQuery> busy = pending(study);
  const Choice paused = best_paused(study, d, threshold, busy);
  if (may_start) {
    const int step = model_.next_step(std::min(horizon_, d.horizon) - 1);
    const auto fresh = search_candidates(
        study,
        [&](const std::vector<std::vector<double>>& units) {
          std::vector<ModelQuery> queries;
          for (const auto& unit : units) queries.push_back({unit, step});
          return model_.log_tail(queries, threshold, busy);
        },
        mix_seed({study.recipe.seed, uint64_t(decision)}));
    if (fresh && fresh->score > paused.score) {
      return start(fresh->point,
                   fmt::format("P(> {:.4f} at step {}) = {:.3g}", threshold,
                               step, std::exp(fresh->score)));
    }
  } else if (!worth_going_on(study)) {
    return none;
  }
  if (paused.trial == nullptr) return none;
  return resume(*paused.trial,
                fmt::format("P(> {:.4f} within {} steps) = {:.3g}", threshold,
                            d.horizon, std::exp(paused.score)));
}

Verdict FreezeThawScheduler::judge(const Study& study, const Trial& trial,
                                   bool reached) {
  Verdict verdict;
  if (!reached) return verdict;
  model_.update(study);
  const std::vector<ModelQuery> query = {{trial.unit, horizon_}};
  const double chance = std::exp(model_.log_tail(query, model_.best()).front());
  const Trial* best = incumbent(study);
  const bool leads = best == nullptr || best->id == trial.id;
  if (!leads && chance < epsilon_) {
    verdict.kind = Verdict::Kind::cut;
    verdict.reason = Reason::hopeless;
    verdict.why =
        fmt::format("P(beats {:.4f} by step {}) = {:.2g}, below {:.2g}",
                    model_.best(), horizon_, chance, epsilon_);
    return verdict;
  }
  verdict.kind = Verdict::Kind::pause;
  verdict.reason = Reason::scheduled;
  verdict.why = "every step is decided anew";
  return verdict;
}

std::vector<std::string> FreezeThawScheduler::describe_plan(
    const Recipe& /*recipe*/, int horizon) const {
  std::string steps;
  for (const int step : model_.ladder()) {
    steps += fmt::format("{}{}", steps.empty() ? "" : ", ", step);
  }
  return {
      fmt::format("trials are looked at after steps {} of {}", steps, horizon),
      "each time a slot is free, the trial or new point with the best "
      "chance of beating the incumbent gets the next steps",
      fmt::format("a trial with less than {:.2g} of a chance is cut",
                  epsilon_)};
}

}  // namespace

std::unique_ptr<Scheduler> make_freeze_thaw_scheduler(
    const Recipe& recipe, int horizon, std::shared_ptr<const CubePrior> prior,
    double epsilon) {
  return std::make_unique<FreezeThawScheduler>(recipe, horizon,
                                               std::move(prior), epsilon);
}

}  // namespace dtune
