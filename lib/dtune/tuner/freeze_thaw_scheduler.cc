#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/tuner/acquisition.h"
#include "dtune/tuner/curves.h"
#include "dtune/tuner/feasibility.h"
#include "dtune/tuner/options.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/step_costs.h"
#include "dtune/tuner/surrogate_tuner.h"

namespace dtune {
namespace {

// Cutting saves nothing here but files, since a hopeless trial is not trained
// anyway; a winner lost is dear.
constexpr double kDefaultEpsilon = 0.005;
// A trial is not cut before it was seen so often.
constexpr int kLooksBeforeCut = 3;
// A trial of an opening gets so many: what one step says of the next ones is
// overrated (after a training on LCBench a regret of .48 with two looks, .82 with
// one).
constexpr int kOpeningLooks = 2;
// In a brief study a trial trains on while it has this chance to beat the
// leader at the end: so few steps tell little, and full trainings more. At 51
// steps (LCBench) a first trial that is trained to its end costs until 8
// trainings.
constexpr double kGoOn = 0.1;

// It is better than after its first step, or had no other one. A curve that
// does not move is not worth its end, even that of the first trial, which
// always leads.
bool rises(const ObjectiveSpec& objective, const Trial& trial) {
  return trial.curve.size() < 2 || has_gained(objective, trial, 0);
}

class FreezeThawScheduler final : public Scheduler {
 public:
  FreezeThawScheduler(const Recipe& recipe,
                      std::shared_ptr<SurrogateModel> model, double epsilon)
      : epsilon_(epsilon),
        prior_(recipe.space),
        feasibility_(std::make_unique<Feasibility>(recipe)),
        model_(std::move(model)) {}

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override;
  Verdict judge(const Study& study, const Trial& trial, bool reached) override;
  std::optional<Leader> leader(const Study& study) const override;
  std::optional<Dismissal> dismiss(const Study& study, bool must) override;
  std::optional<double> chance_of_gain(const Study& study, double gain,
                                       double share) const override;
  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override;
  std::vector<std::string> explain(const Study& study) const override;
  std::map<std::string, double> weights(const Study& study) const override;
  std::vector<std::string> explain_trial(const Study& study,
                                         TrialId id) const override;
  std::optional<Prediction> predict(const Study& study, const Trial& trial,
                                    int step) const override;

 private:
  struct Choice {
    const Trial* trial = nullptr;
    double score = -HUGE_VAL;
    double promise = 0;
  };
  void update(const Study& study,
              const std::vector<Expectation>& bounds = {}) const {
    model_->bound(bounds);
    model_->update(study);
    feasibility_->bound(bounds);
    feasibility_->update(study);
  }
  Choice best_paused(const Study& study, int ahead,
                     const StepCosts& costs) const;
  std::vector<const Trial*> paused_trials(const Study& study) const;
  Directive resume(const Trial& trial, std::string why) const;
  Directive start(Sampler::Proposal proposal) const;
  std::string forecast(const Study& study, const std::vector<double>& unit,
                       TrialId trial) const;
  Directive idle(const Study& study, const char* why) const;
  Verdict train_on(const Trial& trial, std::string why) const;
  Directive finish_off(const Study& study, const Choice& paused) const;
  double score(const Study& study, double promise, const Point& point,
               const std::vector<double>& unit, const StepCosts& costs) const;
  int looks(const Trial& trial) const;
  double chance_at_horizon(const Trial& trial) const;
  double chance_of_gain(const Study& study, const Trial& trial) const;

  double epsilon_;
  Prior prior_;
  std::unique_ptr<Feasibility> feasibility_;
  std::shared_ptr<SurrogateModel> model_;
};

Directive FreezeThawScheduler::resume(const Trial& trial,
                                      std::string why) const {
  Directive d;
  d.kind = Directive::Kind::resume;
  d.trial = trial.id;
  d.target_step = model_->next_step(trial.steps());
  d.why = std::move(why);
  return d;
}

Directive FreezeThawScheduler::start(Sampler::Proposal proposal) const {
  Directive d;
  d.kind = Directive::Kind::start;
  d.point = std::move(proposal.point);
  d.target_step = model_->ladder().front();
  d.why = std::move(proposal.why);
  return d;
}

Directive FreezeThawScheduler::idle(const Study& study, const char* why) const {
  Directive d;
  d.kind = any_active(study) ? Directive::Kind::wait : Directive::Kind::finish;
  d.why = why;
  return d;
}

// By which paused trials and new points are compared.
double FreezeThawScheduler::score(const Study& study, double promise,
                                  const Point& point,
                                  const std::vector<double>& unit,
                                  const StepCosts& costs) const {
  double result =
      promise - costs.log_relative(unit) + feasibility_->log_chance(point);
  if (!prior_.empty()) {
    result += prior_weight(study) * prior_.log_density(unit);
  }
  return result;
}

std::vector<const Trial*> FreezeThawScheduler::paused_trials(
    const Study& study) const {
  std::vector<const Trial*> trials;
  for (const Trial& trial : study.trials) {
    if (trial.kind == TrialKind::search && trial.state == TrialState::paused &&
        trial.steps() < model_->horizon()) {
      trials.push_back(&trial);
    }
  }
  return trials;
}

// What the decision expects of a trial (0: a new one), so that it can be held
// against what came.
std::string FreezeThawScheduler::forecast(const Study& study,
                                          const std::vector<double>& unit,
                                          TrialId trial) const {
  const Prediction p = model_->predict({unit, model_->horizon(), trial});
  return fmt::format("; {} of {:.4g} ({:.4g} to {:.4g}) is expected at {}",
                     study.recipe.objective.metric, p.mean, p.low, p.high,
                     step_text(model_->horizon()));
}

FreezeThawScheduler::Choice FreezeThawScheduler::best_paused(
    const Study& study, int ahead, const StepCosts& costs) const {
  const std::vector<const Trial*> trials = paused_trials(study);
  std::vector<ModelQuery> queries;
  queries.reserve(trials.size());
  for (const Trial* trial : trials) {
    queries.push_back(
        {trial->unit, model_->step_within(trial->steps(), ahead)});
  }
  Choice choice;
  if (trials.empty()) return choice;
  const std::vector<double> promises = model_->log_gain(queries);
  for (size_t i = 0; i < trials.size(); ++i) {
    const double per_cost =
        promises[i] - costs.log_share(trials[i]->steps(), queries[i].step);
    const double own =
        score(study, per_cost, trials[i]->point, trials[i]->unit, costs);
    if (own > choice.score) choice = {trials[i], own, std::exp(promises[i])};
  }
  return choice;
}

// Once nothing may be started: the leader is trained to its end, and whatever
// may still beat it.
Directive FreezeThawScheduler::finish_off(const Study& study,
                                          const Choice& paused) const {
  const Trial& leader = study.trial(model_->leader().trial);
  if (leader.state == TrialState::paused &&
      leader.steps() < model_->horizon()) {
    return resume(leader, "leads, and is trained to its end");
  }
  if (paused.trial != nullptr && chance_at_horizon(*paused.trial) >= epsilon_) {
    return resume(*paused.trial, "may still beat the leader");
  }
  return idle(study, "nothing that is left is likely to beat the leader");
}

// How often it was looked at.
int FreezeThawScheduler::looks(const Trial& trial) const {
  const std::vector<int>& ladder = model_->ladder();
  return static_cast<int>(
      std::upper_bound(ladder.begin(), ladder.end(), trial.steps()) -
      ladder.begin());
}

double FreezeThawScheduler::chance_at_horizon(const Trial& trial) const {
  const ModelQuery query = {trial.unit, model_->horizon()};
  return std::exp(model_->log_chance({&query, 1}, 0).front() +
                  feasibility_->log_chance(trial.point));
}

// That it passes its own best by the horizon.
double FreezeThawScheduler::chance_of_gain(const Study& study,
                                           const Trial& trial) const {
  const auto best = best_value(study.recipe.objective, trial);
  if (!best) return 1;
  return 1 -
         model_->cumulative({trial.unit, model_->horizon(), trial.id}, *best);
}

Directive FreezeThawScheduler::next(const Study& study, Sampler& sampler,
                                    int64_t decision, bool may_start) {
  if (const Trial* trial = interrupted_trial(study)) {
    Directive d = resume(*trial, "was stopped on the way");
    d.target_step = std::max(d.target_step, trial->target_step);
    return d;
  }
  update(study,
         may_start ? draw_bounds(study, decision) : std::vector<Expectation>());
  if (model_->empty()) {
    if (may_start) {
      if (auto proposal = sampler.propose(study, decision)) {
        return start(*std::move(proposal));
      }
    }
    return idle(study, "nothing was seen yet");
  }
  const int ahead =
      draw_horizon(study.recipe.seed, decision, model_->horizon());
  const StepCosts costs(study);
  const Choice paused = best_paused(study, ahead, costs);
  if (may_start) {
    if (auto proposal = sampler.propose(study, decision)) {
      if (proposal->listed) return start(*std::move(proposal));
      const std::vector<double> unit =
          study.recipe.space.encode(proposal->point);
      const ModelQuery query = {unit, model_->step_within(0, ahead)};
      const double promise = model_->log_gain({&query, 1}).front();
      const double per_cost = promise - costs.log_share(0, query.step);
      if (score(study, per_cost, proposal->point, unit, costs) > paused.score) {
        proposal->why += forecast(study, unit, 0);
        return start(*std::move(proposal));
      }
    }
  } else {
    return finish_off(study, paused);
  }
  if (paused.trial == nullptr) return idle(study, "no trial is paused");
  return resume(
      *paused.trial,
      fmt::format("E(gain within {} steps) = {:.3g}, the largest of all "
                  "trials{}",
                  ahead, paused.promise,
                  forecast(study, paused.trial->unit, paused.trial->id)));
}

Verdict FreezeThawScheduler::train_on(const Trial& trial,
                                      std::string why) const {
  Verdict verdict;
  verdict.kind = Verdict::Kind::go_on;
  verdict.target_step = model_->next_step(trial.steps());
  verdict.why = std::move(why);
  return verdict;
}

Verdict FreezeThawScheduler::judge(const Study& study, const Trial& trial,
                                   bool reached) {
  Verdict verdict;
  if (!reached) return verdict;
  if (model_->opening_points() > 0 && looks(trial) < kOpeningLooks &&
      model_->is_opening_point(trial.unit)) {
    return train_on(trial, "opens the study: one look tells too little");
  }
  verdict.kind = Verdict::Kind::pause;
  verdict.reason = Reason::scheduled;
  verdict.why = "every step is decided anew";
  const bool brief = is_brief(*model_);
  if (!brief && looks(trial) < kLooksBeforeCut) return verdict;
  update(study, bounds_of(study.recipe.objective, trial));
  feasibility_->bound({});  // it meets its own bounds
  if (model_->empty()) return verdict;
  if (model_->leader().trial == trial.id) {
    return brief && rises(study.recipe.objective, trial) &&
                   !nothing_learnt(study)
               ? train_on(trial, "leads")
               : verdict;
  }
  const double chance = chance_at_horizon(trial);
  if (brief && chance >= std::max(kGoOn, epsilon_)) {
    return train_on(trial, fmt::format("P(beats the leader by {}) = {:.2g}",
                                       step_text(model_->horizon()), chance));
  }
  if (looks(trial) < kLooksBeforeCut || chance >= epsilon_) return verdict;
  verdict.kind = Verdict::Kind::cut;
  verdict.why = fmt::format("P(beats the leader by {}) = {:.2g}, below {:.2g}",
                            step_text(model_->horizon()), chance, epsilon_);
  const double gain = chance_of_gain(study, trial);
  verdict.reason = gain < epsilon_ ? Reason::stalled : Reason::hopeless;
  if (gain < epsilon_) {
    verdict.why += fmt::format("; P(gets better at all) = {:.2g}", gain);
  }
  return verdict;
}

std::optional<Leader> FreezeThawScheduler::leader(const Study& study) const {
  update(study);
  if (model_->empty()) return std::nullopt;
  return model_->leader();
}

std::optional<Dismissal> FreezeThawScheduler::dismiss(const Study& study,
                                                      bool must) {
  // Which of them has no place on a front the leader alone does not say.
  if (!must && !study.recipe.objective.trade_offs.empty()) return std::nullopt;
  update(study);
  if (model_->empty()) return std::nullopt;
  const TrialId leader = model_->leader().trial;
  std::vector<const Trial*> trials;
  std::vector<ModelQuery> queries;
  for (const Trial* trial : paused_trials(study)) {
    if (trial->id == leader || trial->steps() < trial->target_step) continue;
    if (!must && looks(*trial) < kLooksBeforeCut) continue;
    trials.push_back(trial);
    queries.push_back({trial->unit, model_->horizon()});
  }
  if (trials.empty()) return std::nullopt;
  std::vector<double> chances = model_->log_chance(queries, 0);
  for (size_t i = 0; i < trials.size(); ++i) {
    chances[i] += feasibility_->log_chance(trials[i]->point);
  }
  const auto least = static_cast<size_t>(
      std::min_element(chances.begin(), chances.end()) - chances.begin());
  const double chance = std::exp(chances[least]);
  const Trial& trial = *trials[least];
  if (!must && chance >= epsilon_) return std::nullopt;
  return Dismissal{trial.id, Reason::hopeless,
                   fmt::format("P(beats the leader by {}) = {:.2g} by now, {}",
                               step_text(model_->horizon()), chance,
                               must ? "the least of all paused trials"
                                    : fmt::format("below {:.2g}", epsilon_))};
}

// Beside new points, the paused trial that is most likely to get there may.
std::optional<double> FreezeThawScheduler::chance_of_gain(const Study& study,
                                                          double gain,
                                                          double share) const {
  const auto by_new = dtune::chance_of_gain(study, gain, share);
  if (!by_new) return std::nullopt;
  update(study);
  if (model_->empty()) return by_new;
  std::vector<ModelQuery> queries;
  for (const Trial* trial : paused_trials(study)) {
    queries.push_back({trial->unit, model_->horizon()});
  }
  if (queries.empty()) return by_new;
  const std::vector<double> chances =
      model_->log_chance(queries, model_->ambition_of(gain));
  const double paused =
      std::exp(*std::max_element(chances.begin(), chances.end()));
  return 1 - (1 - *by_new) * (1 - paused);
}

std::vector<std::string> FreezeThawScheduler::describe_plan(
    const Recipe& /*recipe*/, int horizon) const {
  std::vector<std::string> plan = {
      horizon >= kOpenHorizon
          ? "trials are looked at when their program ends (the recipe does not "
            "say how many steps it has)"
          : fmt::format("trials are looked at after steps {}",
                        fmt::join(model_->ladder(), ", "))};
  if (const size_t points = model_->opening_points()) {
    plan.push_back(
        fmt::format("first {} points that suit most recorded studies, and more "
                    "of them while slots are free and nothing was reported, to "
                    "step {} each",
                    points, model_->ladder().at(kOpeningLooks - 1)));
  }
  plan.push_back(
      "each time a slot is free, the trial or new point with the largest "
      "expected gain over the leader gets the next steps");
  plan.push_back(fmt::format(
      "a trial with less than {:.2g} of a chance to beat the leader is cut",
      epsilon_));
  return plan;
}

std::vector<std::string> FreezeThawScheduler::explain(
    const Study& study) const {
  update(study);
  return describe_model(*model_);
}

std::map<std::string, double> FreezeThawScheduler::weights(
    const Study& study) const {
  update(study);
  return model_->weights();
}

std::vector<std::string> FreezeThawScheduler::explain_trial(const Study& study,
                                                            TrialId id) const {
  update(study);
  if (model_->empty()) return {};
  const double chance = chance_at_horizon(study.trial(id));
  return {fmt::format("P(beats the leader, trial {}, by {}) = {:.2g}",
                      model_->leader().trial, step_text(model_->horizon()),
                      chance)};
}

std::optional<Prediction> FreezeThawScheduler::predict(const Study& study,
                                                       const Trial& trial,
                                                       int step) const {
  update(study);
  if (model_->empty()) return std::nullopt;
  return model_->predict({trial.unit, step, trial.id});
}

}  // namespace

std::unique_ptr<Scheduler> make_freeze_thaw_scheduler(
    const Recipe& recipe, std::shared_ptr<SurrogateModel> model) {
  const OptionReader options("scheduler", recipe.scheduler.options);
  return std::make_unique<FreezeThawScheduler>(
      recipe, std::move(model),
      options.number("epsilon", 0, 0.5).value_or(kDefaultEpsilon));
}

}  // namespace dtune
