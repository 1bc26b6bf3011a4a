// How the members of a gang agree which layers are whose.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dtune/comm/collective.h"
#include "dtune/nn/network.h"
#include "dtune/pipeline/pipeline_links.h"

namespace dtune {

struct PipelinePlan {
  std::vector<int> first_layer;   // of each stage
  std::vector<double> predicted;  // seconds of a sample in each stage
};

// Which layers each stage has and its predicted time, one line for messages.
std::string describe(const PipelinePlan& plan,
                     const std::vector<LayerSpec>& layers);

struct PlanRequest {
  std::vector<LayerSpec> layers;  // of the whole network
  Shape input;
  NetworkOptions network;
  int64_t samples = 16;        // of a micro-batch, as far as is worth measuring
  double input_seconds = 0;    // of getting one sample ready (first stage)
  bool deterministic = false;  // by counting instead of measuring
  std::string key;             // prefix in the store, unique for each agreement
};

// Values by name that members share; `get` waits, and throws Error(comm) where
// a value will not come.
struct PlanStore {
  std::function<void(const std::string& key, const std::string& value)> set;
  std::function<std::string(const std::string& key)> get;
};

// Called by all members. Each measures its speed and what it can receive from
// the stage before, the leader also every layer's costs; the leader computes
// the best cut (pipeline/partition.h; a stage of several replicas is as fast as
// the slowest of them) and all take its plan. Deterministic: costs are
// counted and all members taken as equal, so the cut depends on the network
// alone.
//
// Throws Error(config) where the network has fewer layers than stages.
PipelinePlan agree_on_plan(const PlanRequest& request,
                           const PipelinePlace& place, Collective& group,
                           Duration patience, const PlanStore& store);

}  // namespace dtune
