#include "tuner/simulation.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace dtune::testing {
namespace {

Parameter real(const std::string& name, double low, double high, bool log) {
  Parameter parameter;
  parameter.name = name;
  parameter.low = low;
  parameter.high = high;
  parameter.log = log;
  return parameter;
}

class Simulation {
 public:
  Simulation(Study& study, Sampler& sampler, Scheduler& scheduler,
             const Options& options)
      : study_(study),
        sampler_(sampler),
        scheduler_(scheduler),
        options_(options),
        rng_(options.order_seed) {}

  std::vector<std::string> run() {
    for (int events = 0; events < 100'000; ++events) {
      if (reports_ == options_.stop_after_reports) {
        stop();
        return log_;
      }
      if (!finished_) fill_slots();
      if (running_.empty()) {
        REQUIRE_MESSAGE(finished_, "waits although nothing runs");
        return log_;
      }
      step_one(running_[rng_.below(running_.size())]);
    }
    FAIL("the search does not end");
    return log_;
  }

 private:
  bool may_start() const {
    return std::ssize(study_.trials) < study_.recipe.budget.trials;
  }

  void fill_slots() {
    while (std::ssize(running_) < options_.slots) {
      const bool allowed = may_start();
      const Directive directive =
          scheduler_.next(study_, sampler_, ++study_.decisions, allowed);
      switch (directive.kind) {
        case Directive::Kind::start:
          REQUIRE(allowed);
          start(directive);
          break;
        case Directive::Kind::resume:
          resume(directive);
          break;
        case Directive::Kind::wait:
          REQUIRE_FALSE(running_.empty());
          return;
        case Directive::Kind::finish:
          finished_ = true;
          note("finish", 0, 0, directive.why);
          return;
      }
    }
  }

  void start(const Directive& directive) {
    REQUIRE(study_.recipe.space.reason_invalid(directive.point) == "");
    Trial trial;
    trial.id = std::ssize(study_.trials) + 1;
    trial.point = directive.point;
    trial.unit = study_.recipe.space.encode(trial.point);
    trial.seed = mix_seed({study_.recipe.seed, uint64_t(trial.id)});
    study_.trials.push_back(trial);
    run_to(trial.id, directive.target_step);
    note("start", trial.id, directive.target_step, directive.why);
  }

  void resume(const Directive& directive) {
    const Trial& trial = study_.trial(directive.trial);
    REQUIRE(trial.state == TrialState::paused);
    REQUIRE(trial.kind == TrialKind::search);
    run_to(directive.trial, directive.target_step);
    note("resume", directive.trial, directive.target_step, directive.why);
  }

  void run_to(TrialId id, int target) {
    Trial& trial = study_.trial(id);
    REQUIRE(target > trial.steps());
    REQUIRE(target <= study_.horizon);
    trial.state = TrialState::running;
    trial.attempt += 1;
    trial.target_step = target;
    running_.push_back(id);
  }

  void step_one(TrialId id) {
    Trial& trial = study_.trial(id);
    const double value = options_.curve(trial, trial.steps() + 1);
    ++reports_;
    trial.curve.push_back({trial.steps() + 1, {{"val_accuracy", value}}});
    if (std::isnan(value)) return release(id, TrialState::failed);
    if (trial.steps() == study_.horizon) {
      return release(id, TrialState::complete);
    }
    const bool reached = trial.steps() >= trial.target_step;
    const Verdict verdict = scheduler_.judge(study_, trial, reached);
    if (verdict.kind == Verdict::Kind::pause) {
      release(id, TrialState::paused);
    } else if (verdict.kind == Verdict::Kind::cut) {
      release(id, TrialState::cut);
    } else {
      trial.target_step = std::max(trial.target_step, verdict.target_step);
      REQUIRE(trial.target_step > trial.steps());
      REQUIRE(trial.target_step <= study_.horizon);
      return;
    }
    CHECK(verdict.reason != Reason::none);
    CHECK_FALSE(verdict.why.empty());
  }

  void release(TrialId id, TrialState state) {
    study_.trial(id).state = state;
    std::erase(running_, id);
    note(to_string(state), id, study_.trial(id).steps(), "");
  }

  void stop() {
    for (const TrialId id : running_) {
      study_.trial(id).state = TrialState::paused;
    }
  }

  void note(const char* action, TrialId trial, int step,
            const std::string& why) {
    log_.push_back(fmt::format("{} {} {} {}", action, trial, step, why));
  }

  Study& study_;
  Sampler& sampler_;
  Scheduler& scheduler_;
  const Options& options_;
  Rng rng_;
  std::vector<TrialId> running_;
  std::vector<std::string> log_;
  int64_t reports_ = 0;
  bool finished_ = false;
};

}  // namespace

std::vector<Parameter> cube() {
  return {real("lr", 1e-4, 0.5, true), real("l2", 1e-6, 1e-2, true),
          real("dropout", 0, 0.6, false)};
}

Recipe cube_recipe(const std::string& sampler, const std::string& scheduler,
                   uint64_t seed, int trials) {
  Recipe recipe;
  recipe.seed = seed;
  recipe.space = SearchSpace(cube());
  recipe.sampler.kind = sampler;
  if (sampler == "grid") recipe.sampler.options["points"] = int64_t{5};
  recipe.scheduler.kind = scheduler;
  recipe.budget.trials = trials;
  return recipe;
}

Study make_study(Recipe recipe, int horizon) {
  Study study;
  study.id = fmt::format("{}-{}-{}", recipe.sampler.kind, recipe.scheduler.kind,
                         recipe.seed);
  study.recipe = std::move(recipe);
  study.horizon = horizon;
  return study;
}

double smooth_curve(const Trial& trial, int step) {
  const auto lr = trial.point.find("lr");
  const double distance =
      lr == trial.point.end() ? 1 : std::log10(*as_number(lr->second)) + 2;
  const double end = 0.95 - 0.1 * std::abs(distance);
  Rng noise(mix_seed({trial.seed, uint64_t(step)}));
  return end * (1 - std::exp(-0.5 * step)) + 0.01 * noise.uniform();
}

std::vector<std::string> simulate(Study& study, Sampler& sampler,
                                  Scheduler& scheduler,
                                  const Options& options) {
  return Simulation(study, sampler, scheduler, options).run();
}

int duplicate_points(const Study& study) {
  std::set<Point> seen;
  int duplicates = 0;
  for (const Trial& trial : study.trials) {
    if (!seen.insert(trial.point).second) ++duplicates;
  }
  return duplicates;
}

}  // namespace dtune::testing
