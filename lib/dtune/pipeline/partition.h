// Where a chain of layers is cut into the stages of a pipeline.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtune {

// What must stay together: a layer, a residual block, or layers that one fast
// layer stands for.
struct PipelineUnit {
  double seconds = 0;      // of one sample, forward and backward, at speed 1
  double input_bytes = 0;  // of one sample: what crosses a cut before it
};

// A computer that takes one stage.
struct StageHost {
  double speed = 1;      // relative to the one that measured the units; > 0
  double bandwidth = 0;  // from the stage before, bytes/s; 0: no limit
};

struct Partition {
  std::vector<size_t> first;    // unit that each stage begins with; ascending
  std::vector<double> seconds;  // of one sample, as predicted, in each stage:
                                // computing or receiving, whichever is longer
  double slowest = 0;           // the largest: what the pipeline waits for
  size_t end(size_t stage, size_t units) const {
    return stage + 1 < first.size() ? first[stage + 1] : units;
  }
};

// The cut whose slowest stage is fastest, by the exact dynamic programme
//   D[j][i] = min over l < i of
//             max(D[j - 1][l], seconds(l..i) / speed_j, bytes(l) / bandwidth_j)
// over the first i units in j stages: O(k n^2) for n units and k stages.
// Activations travel while others are computed, so a cut costs only where it is
// the bottleneck (their gradients go the other way at the same time). Of
// equally good cuts the one whose last stage begins first.
//
// Deviations from torchgpipe's balancing (Kim et al. 2020, arXiv 2004.09910):
// exact instead of by local moves, for unequal computers, and cut sizes count.
//
// Throws Error(config) where there are fewer units than stages.
Partition cut_into_stages(std::span<const PipelineUnit> units,
                          std::span<const StageHost> hosts);

}  // namespace dtune
