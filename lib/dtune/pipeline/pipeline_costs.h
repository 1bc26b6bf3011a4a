// What the layers of a network cost, for cutting it into stages.
#pragma once

#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/nn/network.h"
#include "dtune/pipeline/partition.h"

namespace dtune {

// Layers that a network's stages may begin with: what it computes as one stays
// together (network_units) where there are enough of those for the stages, else
// every layer is on its own.
std::vector<int> stage_candidates(const std::vector<LayerSpec>& layers,
                                  const Shape& input,
                                  const NetworkOptions& options, int stages);

// The units that begin with these layers, each with the time that forward and
// backward of `samples` random samples take on this process's device and
// threads: the best of some passes over all, since a computer that others use
// as well may be slow for seconds. No new pass begins after `seconds`.
std::vector<PipelineUnit> measure_units(const std::vector<LayerSpec>& layers,
                                        const Shape& input,
                                        std::span<const int> first,
                                        const NetworkOptions& options,
                                        int64_t samples, double seconds = 3);

// The same by counting: a computer of 10 GFLOP/s (backward: twice the forward)
// and 2 GB/s (each activation is written and read, both ways). The same numbers
// on all computers.
std::vector<PipelineUnit> count_units(const std::vector<LayerSpec>& layers,
                                      const Shape& input,
                                      std::span<const int> first);

// How fast this process multiplies matrices, in GFLOP/s, compared with others
// of its gang: the mean over 1 s, not the best, so that a computer that
// others use as well, or whose quota is small, counts as slow.
double measure_speed(at::Device device);

}  // namespace dtune
