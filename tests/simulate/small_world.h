// A cube small enough to reckon with by hand, and a tuner that does as told.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtune/simulate/cube_world.h"
#include "dtune/simulate/simulator.h"
#include "dtune/tuner/factory.h"

namespace dtune::testing {

// Three learning rates, two epochs: .2 .4 / .5 .8 / .3 .6. The best is .8, the
// median of the ends .6.
inline RecordedCurves three_rates(const std::string& task = "three") {
  RecordedCurves curves;
  curves.task = task;
  curves.log10_lr = {-3, -2, -1};
  curves.log10_l2 = {-4};
  curves.dropout = {0};
  curves.epochs = {1, 2};
  curves.values = {0.2f, 0.4f, 0.5f, 0.8f, 0.3f, 0.6f};
  return curves;
}

// Proposes points of the given learning rates, then none.
class ListSampler final : public Sampler {
 public:
  explicit ListSampler(std::vector<double> rates) : rates_(std::move(rates)) {}
  std::optional<Proposal> propose(const Study& study,
                                  int64_t /*decision*/) override {
    if (study.trials.size() >= rates_.size()) return std::nullopt;
    return Proposal{{{"lr", rates_[study.trials.size()]}}, "listed"};
  }

 private:
  std::vector<double> rates_;
};

inline SimulatedTuner listed_tuner(const TrialWorld& world,
                                   std::vector<double> rates,
                                   const std::string& scheduler = "fifo") {
  Recipe recipe = world.recipe();
  recipe.scheduler.kind = scheduler;
  return {std::make_unique<ListSampler>(std::move(rates)),
          make_scheduler(recipe, world.steps())};
}

}  // namespace dtune::testing
