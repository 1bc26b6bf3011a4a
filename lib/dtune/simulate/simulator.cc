#include "dtune/simulate/simulator.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

// Selects the recorded training that a trial is.
uint64_t training_of(const SimulationOptions& options, const Trial& trial) {
  return mix_seed({options.seed, hash_text("training"), uint64_t(trial.id)});
}

// A miss where all points end alike is measured in these units.
constexpr double kLeastScale = 1e-6;

// One study in virtual time.
class Simulation {
 public:
  Simulation(const TrialWorld& world, const Recipe& recipe,
             const SimulatedTuner& tuner, const SimulationOptions& options,
             SimulationObserver& observer)
      : world_(world),
        tuner_(tuner),
        options_(options),
        observer_(observer),
        budgets_(budgets_of(options, world.steps())),
        slots_(static_cast<size_t>(options.slots)) {
    study_.id = "simulation";
    study_.recipe = recipe;
    study_.horizon = world.steps();
  }

  SimulationResult run();

 private:
  // What a slot does; trial 0: nothing.
  struct Slot {
    TrialId trial = 0;
    double done_at = 0;
    double duration = 1;  // of a step
  };

  bool fill_slots();
  bool give_work(Slot& slot);
  bool begin_trial(const Point& proposal);
  double duration_of(const Point& point) const;
  void finish_step(Slot& slot);
  void settle(Slot& slot, Trial& trial, bool finite);
  void judge(Slot& slot, Trial& trial);
  void release(Slot& slot, Trial& trial, TrialState state, Reason reason);
  std::optional<Leader> held() const;
  double worth(const Trial& trial, int step) const;
  double true_value(const Leader& held) const;
  void note_regret();
  bool would_have_won(const Trial& trial, double found) const;
  void count_cuts();

  const TrialWorld& world_;
  const SimulatedTuner& tuner_;
  const SimulationOptions& options_;
  SimulationObserver& observer_;
  const std::vector<int64_t> budgets_;
  Study study_;
  std::vector<Slot> slots_;
  double now_ = 0;
  std::optional<Leader> luckiest_;
  double best_observed_ = 0;
  bool exhausted_ = false;  // the world has no further trial
  SimulationResult result_;
};

// Adds a trial at the point that the world trains for the proposal.
bool Simulation::begin_trial(const Point& proposal) {
  const auto point = world_.settle(proposal, study_);
  if (!point) {
    exhausted_ = true;
    return false;
  }
  Trial trial;
  trial.id = static_cast<TrialId>(study_.trials.size()) + 1;
  trial.point = *point;
  trial.unit = study_.recipe.space.encode(*point);
  trial.seed = mix_seed({study_.recipe.seed, uint64_t(trial.id)});
  study_.trials.push_back(std::move(trial));
  return true;
}

bool Simulation::give_work(Slot& slot) {
  Directive directive = tuner_.scheduler->next(
      study_, *tuner_.sampler, study_.decisions + 1, !exhausted_);
  if (directive.kind == Directive::Kind::start &&
      !begin_trial(directive.point)) {
    directive = tuner_.scheduler->next(study_, *tuner_.sampler,
                                       study_.decisions + 1, false);
  }
  if (directive.kind == Directive::Kind::wait ||
      directive.kind == Directive::Kind::finish) {
    return false;
  }
  ++study_.decisions;
  Trial& trial = directive.kind == Directive::Kind::start
                     ? study_.trials.back()
                     : study_.trial(directive.trial);
  trial.state = TrialState::running;
  trial.attempt += 1;
  trial.target_step = std::min(directive.target_step, study_.horizon);
  DTUNE_CHECK(trial.target_step > trial.steps());
  const double duration = duration_of(trial.point);
  slot = {trial.id, now_ + duration, duration};
  observer_.on_directive(study_, directive);
  return true;
}

bool Simulation::fill_slots() {
  bool busy = false;
  for (Slot& slot : slots_) {
    busy = slot.trial != 0 || give_work(slot) || busy;
  }
  return busy;
}

double Simulation::duration_of(const Point& point) const {
  if (options_.spread == 0) return 1;
  uint64_t seed = hash_text("duration");
  for (const auto& [name, value] : point) {
    seed = mix_seed({seed, hash_text(name), hash_text(to_string(value))});
  }
  return std::exp(options_.spread * Rng(seed).normal());
}

void Simulation::finish_step(Slot& slot) {
  Trial& trial = study_.trial(slot.trial);
  StepReport report;
  report.step = trial.steps() + 1;
  report.sequence = ++result_.steps;
  report.seconds = slot.duration;
  const double observed = observation(world_, options_, trial, report.step);
  const ObjectiveSpec& objective = study_.recipe.objective;
  report.metrics[objective.metric] =
      objective.goal == Goal::maximize ? observed : -observed;
  trial.curve.push_back(report);
  study_.reports = result_.steps;
  study_.searched_seconds = now_;
  const bool finite = std::isfinite(observed);
  if (finite && (!luckiest_ || observed > best_observed_)) {
    luckiest_ = Leader{trial.id, report.step};
    best_observed_ = observed;
  }
  observer_.on_report(study_, trial);
  settle(slot, trial, finite);
}

void Simulation::release(Slot& slot, Trial& trial, TrialState state,
                         Reason reason) {
  trial.state = state;
  trial.reason = reason;
  slot.trial = 0;
}

void Simulation::settle(Slot& slot, Trial& trial, bool finite) {
  if (!finite) {
    release(slot, trial, TrialState::failed, Reason::diverged);
  } else if (trial.steps() >= study_.horizon) {
    release(slot, trial, TrialState::complete, Reason::horizon);
  } else {
    judge(slot, trial);
  }
}

void Simulation::judge(Slot& slot, Trial& trial) {
  const bool reached = trial.steps() >= trial.target_step;
  const Verdict verdict = tuner_.scheduler->judge(study_, trial, reached);
  switch (verdict.kind) {
    case Verdict::Kind::go_on:
      trial.target_step = std::min(
          std::max(trial.target_step, verdict.target_step), study_.horizon);
      DTUNE_CHECK(trial.target_step > trial.steps());
      slot.done_at = now_ + slot.duration;
      break;
    case Verdict::Kind::pause:
      release(slot, trial, TrialState::paused, verdict.reason);
      break;
    case Verdict::Kind::cut:
      release(slot, trial, TrialState::cut, verdict.reason);
      break;
  }
}

std::optional<Leader> Simulation::held() const {
  const auto leader = tuner_.scheduler->leader(study_);
  return leader ? leader : luckiest_;
}

double Simulation::worth(const Trial& trial, int step) const {
  return world_.judged(trial.point, step, training_of(options_, trial));
}

double Simulation::true_value(const Leader& held) const {
  return worth(study_.trial(held.trial), held.step);
}

// Enters the regret at the next budget.
void Simulation::note_regret() {
  const auto held = this->held();
  const double scale =
      std::max(world_.best() - world_.median_final(), kLeastScale);
  result_.regret.push_back(held ? (world_.best() - true_value(*held)) / scale
                                : 1);
}

bool Simulation::would_have_won(const Trial& trial, double found) const {
  for (int step = trial.steps() + 1; step <= study_.horizon; ++step) {
    if (worth(trial, step) > found) return true;
  }
  return false;
}

void Simulation::count_cuts() {
  const auto held = this->held();
  for (const Trial& trial : study_.trials) {
    if (trial.state != TrialState::cut) continue;
    ++result_.cuts;
    if (!held || would_have_won(trial, true_value(*held))) {
      ++result_.cuts_wrong;
    }
  }
}

SimulationResult Simulation::run() {
  while (result_.regret.size() < budgets_.size() && fill_slots()) {
    Slot* first = nullptr;
    for (Slot& slot : slots_) {
      const bool earlier = slot.trial != 0 &&
                           (first == nullptr || slot.done_at < first->done_at);
      if (earlier) first = &slot;
    }
    DTUNE_CHECK(first != nullptr);
    now_ = first->done_at;
    finish_step(*first);
    while (result_.regret.size() < budgets_.size() &&
           budgets_[result_.regret.size()] <= result_.steps) {
      note_regret();
    }
  }
  while (result_.regret.size() < budgets_.size()) note_regret();
  result_.time = now_;
  result_.trials = static_cast<int>(study_.trials.size());
  result_.decisions = study_.decisions;
  count_cuts();
  return result_;
}

}  // namespace

double observation(const TrialWorld& world, const SimulationOptions& options,
                   const Trial& trial, int step) {
  const double observed =
      world.single(trial.point, step, training_of(options, trial));
  if (options.noise == 0) return observed;
  Rng rng(mix_seed(
      {options.seed, hash_text("noise"), uint64_t(trial.id), uint64_t(step)}));
  return observed + options.noise * rng.normal();
}

std::vector<int64_t> budgets_of(const SimulationOptions& options, int steps) {
  if (!options.budgets.empty()) return options.budgets;
  std::vector<int64_t> budgets;
  for (const int trainings : {1, 2, 4, 8, 12, 20}) {
    budgets.push_back(int64_t{trainings} * steps);
  }
  return budgets;
}

SimulationResult simulate(const TrialWorld& world, const Recipe& recipe,
                          const SimulatedTuner& tuner,
                          const SimulationOptions& options,
                          SimulationObserver* observer) {
  DTUNE_CHECK(options.slots > 0 && options.noise >= 0 && options.spread >= 0);
  DTUNE_CHECK(std::is_sorted(options.budgets.begin(), options.budgets.end()));
  SimulationObserver none;
  return Simulation(world, recipe, tuner, options,
                    observer != nullptr ? *observer : none)
      .run();
}

}  // namespace dtune
