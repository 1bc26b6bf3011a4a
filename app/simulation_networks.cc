#include "app/simulation_networks.h"

#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/learnt_prior.h"
#include "dtune/tuner/factory.h"

namespace dtune {
namespace {

using Networks = std::vector<ConvLstm>;

bool was_left_out(const ConvLstm& network, const std::string& task) {
  const auto found = network.metadata().find(kLeftOutKey);
  if (found == network.metadata().end()) return false;
  return ("," + found->second + ",").find("," + task + ",") !=
         std::string::npos;
}

const ConvLstm* network_for(const Networks& networks, const std::string& task) {
  for (const ConvLstm& network : networks) {
    if (was_left_out(network, task)) return &network;
  }
  return networks.empty() ? nullptr : &networks.front();
}

}  // namespace

MakeTuner tuners_with_weights(const std::string& prior_file,
                              const std::vector<std::string>& files,
                              std::optional<double> epsilon) {
  std::shared_ptr<const LearntPrior> prior;
  if (!prior_file.empty()) {
    prior = std::make_shared<const LearntPrior>(LearntPrior::load(prior_file));
  }
  auto networks = std::make_shared<Networks>();
  for (const std::string& file : files) {
    networks->push_back(ConvLstm::load(file));
  }
  return [prior, networks, epsilon](const Recipe& recipe,
                                    const TrialWorld& world) {
    TunerOptions options;
    options.leave_out = {world.task()};
    options.prior = prior;
    options.network = {networks, network_for(*networks, world.task())};
    Recipe named = recipe;
    if (epsilon && recipe.scheduler.kind == "freeze-thaw") {
      named.scheduler.options["epsilon"] = *epsilon;
    }
    Tuner tuner = make_tuner(named, world.steps(), options);
    return SimulatedTuner{std::move(tuner.sampler), std::move(tuner.scheduler)};
  };
}

}  // namespace dtune
