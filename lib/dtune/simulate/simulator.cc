#include "dtune/simulate/simulator.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

Parameter real_parameter(const char* name, const char* key, double low,
                         double high, bool log) {
  Parameter p;
  p.name = name;
  p.key = key;
  p.low = low;
  p.high = high;
  p.log = log;
  return p;
}

CubePoint cube_point(const Point& point) {
  const auto number = [&](const char* name) {
    return as_number(point.at(name)).value_or(0);
  };
  return {std::log10(number("lr")), std::log10(number("l2")),
          number("dropout")};
}

// One study in virtual time.
class Simulation {
 public:
  Simulation(const RecordedCurves& curves, const Recipe& recipe,
             Sampler& sampler, Scheduler& scheduler,
             const SimulationOptions& options)
      : curves_(curves),
        sampler_(sampler),
        scheduler_(scheduler),
        options_(options),
        slots_(static_cast<size_t>(options.slots)) {
    study_.id = "simulation";
    study_.recipe = recipe;
    study_.horizon = curves.steps();
  }

  SimulationResult run();

 private:
  // What a slot does; trial 0: nothing.
  struct Slot {
    TrialId trial = 0;
    int64_t done_at = 0;
  };

  bool fill_slots();
  bool give_work(Slot& slot);
  void finish_step(Slot& slot);
  void settle(Slot& slot, Trial& trial);
  void note_budgets();
  int count_wrong_cuts() const;

  const RecordedCurves& curves_;
  Sampler& sampler_;
  Scheduler& scheduler_;
  const SimulationOptions& options_;
  Study study_;
  std::vector<Slot> slots_;
  std::vector<double> found_;  // true value of the best, after each step
  int64_t now_ = 0;
  int64_t steps_ = 0;
  double best_observed_ = -1;
  double best_true_ = -1;
  SimulationResult result_;
};

bool Simulation::give_work(Slot& slot) {
  const Directive d =
      scheduler_.next(study_, sampler_, ++study_.decisions, true);
  if (d.kind == Directive::Kind::wait || d.kind == Directive::Kind::finish) {
    --study_.decisions;
    return false;
  }
  if (d.kind == Directive::Kind::start) {
    Trial trial;
    trial.id = static_cast<TrialId>(study_.trials.size()) + 1;
    trial.point = d.point;
    trial.unit = study_.recipe.space.encode(d.point);
    study_.trials.push_back(std::move(trial));
  }
  Trial& trial = d.kind == Directive::Kind::start ? study_.trials.back()
                                                  : study_.trial(d.trial);
  trial.state = TrialState::running;
  trial.target_step = d.target_step;
  slot = {trial.id, now_ + 1};
  return true;
}

bool Simulation::fill_slots() {
  bool busy = false;
  for (Slot& slot : slots_) {
    busy = slot.trial != 0 || give_work(slot) || busy;
  }
  return busy;
}

void Simulation::settle(Slot& slot, Trial& trial) {
  const bool reached = trial.steps() >= trial.target_step;
  if (trial.steps() >= study_.horizon) {
    trial.state = TrialState::complete;
    slot.trial = 0;
    return;
  }
  const Verdict verdict = scheduler_.judge(study_, trial, reached);
  if (verdict.kind == Verdict::Kind::go_on) {
    if (verdict.target_step > 0) trial.target_step = verdict.target_step;
    slot.done_at = now_ + 1;
    return;
  }
  const bool cut = verdict.kind == Verdict::Kind::cut;
  trial.state = cut ? TrialState::cut : TrialState::paused;
  trial.reason = verdict.reason;
  slot.trial = 0;
}

void Simulation::finish_step(Slot& slot) {
  Trial& trial = study_.trial(slot.trial);
  StepReport report;
  report.step = trial.steps() + 1;
  report.sequence = ++steps_;
  report.seconds = 1;
  const double truth = curves_.value(cube_point(trial.point), report.step);
  Rng rng(mix_seed({options_.seed, hash_text("noise"), uint64_t(trial.id),
                    uint64_t(report.step)}));
  const double observed = truth + options_.noise * rng.normal();
  report.metrics["val_accuracy"] = observed;
  trial.curve.push_back(report);
  if (observed > best_observed_) {
    best_observed_ = observed;
    best_true_ = truth;
  }
  found_.push_back(best_true_);
  settle(slot, trial);
}

void Simulation::note_budgets() {
  const double best = curves_.best();
  const double median = curves_.median_final();
  for (const int64_t budget : options_.budgets) {
    if (found_.empty()) {
      result_.regret.push_back(1);
      continue;
    }
    const size_t last =
        std::min(found_.size(), static_cast<size_t>(budget)) - 1;
    result_.regret.push_back((best - found_[last]) / (best - median));
  }
}

int Simulation::count_wrong_cuts() const {
  int wrong = 0;
  for (const Trial& trial : study_.trials) {
    if (trial.state != TrialState::cut) continue;
    if (curves_.value(cube_point(trial.point), curves_.steps()) > best_true_) {
      ++wrong;
    }
  }
  return wrong;
}

SimulationResult Simulation::run() {
  const int64_t limit =
      *std::max_element(options_.budgets.begin(), options_.budgets.end());
  while (steps_ < limit && fill_slots()) {
    Slot* first = nullptr;
    for (Slot& slot : slots_) {
      const bool earlier = slot.trial != 0 &&
                           (first == nullptr || slot.done_at < first->done_at);
      if (earlier) first = &slot;
    }
    now_ = first->done_at;
    finish_step(*first);
  }
  note_budgets();
  result_.trials = static_cast<int>(study_.trials.size());
  result_.decisions = study_.decisions;
  for (const Trial& trial : study_.trials) {
    if (trial.state == TrialState::cut) ++result_.cuts;
  }
  result_.cuts_wrong = count_wrong_cuts();
  return result_;
}

}  // namespace

Recipe simulated_recipe(const RecordedCurves& curves,
                        const std::string& sampler,
                        const std::string& scheduler, uint64_t seed) {
  Recipe recipe;
  recipe.study = curves.task;
  recipe.seed = seed;
  recipe.sampler.kind = sampler;
  recipe.scheduler.kind = scheduler;
  recipe.train.epochs = curves.steps();
  recipe.space = SearchSpace(
      {real_parameter("lr", "train.lr", std::pow(10, curves.log10_lr.front()),
                      std::pow(10, curves.log10_lr.back()), true),
       real_parameter("l2", "train.l2", std::pow(10, curves.log10_l2.front()),
                      std::pow(10, curves.log10_l2.back()), true),
       real_parameter("dropout", "model.dropout", curves.dropout.front(),
                      curves.dropout.back(), false)});
  return recipe;
}

SimulationResult simulate(const RecordedCurves& curves, const Recipe& recipe,
                          Sampler& sampler, Scheduler& scheduler,
                          const SimulationOptions& options) {
  DTUNE_CHECK(options.slots > 0 && !options.budgets.empty());
  return Simulation(curves, recipe, sampler, scheduler, options).run();
}

}  // namespace dtune
