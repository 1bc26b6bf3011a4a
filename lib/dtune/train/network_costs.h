// What a network costs where it is used: the metrics of cost_metrics().
#pragma once

#include <map>
#include <string>

#include "dtune/nn/network.h"
#include "dtune/study/objective_spec.h"

namespace dtune {

// The recipe bounds (`require:`) or weighs (`objective.trade_off`) one of
// cost_metrics().
bool asks_for_costs(const ObjectiveSpec& objective);

// "parameters": the numbers that are trained. "latency_ms": milliseconds from
// an image on the device to its logits on the CPU, the median of 21 after 3 to
// warm up; follows the machine's load, so equal trials differ a little.
std::map<std::string, double> measure_costs(Network& network,
                                            const Shape& image,
                                            at::Device device);

}  // namespace dtune
