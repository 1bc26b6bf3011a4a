// How a network's layers lie over the stages of a pipeline. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/study/layers.h"

namespace dtune {

// The layers of one stage.
struct StageLayers {
  std::vector<LayerSpec> layers;
  Shape input;
  Shape output;
};

// `first`: the layer that each stage begins with, ascending from 0.
// REQUIRES: infer_shapes(layers, input) passed.
StageLayers layers_of_stage(const std::vector<LayerSpec>& layers,
                            const Shape& input, std::span<const int> first,
                            int stage);

// A stage's part of the whole network's flat tensors: layers declare their
// weights in order, so it is one range of each.
struct StageSlice {
  int64_t first_weight = 0;
  int64_t weights = 0;
  int64_t first_buffer = 0;
  int64_t buffers = 0;
};

// One for each stage.
std::vector<StageSlice> slices_of_stages(const std::vector<LayerSpec>& layers,
                                         const Shape& input,
                                         std::span<const int> first);

// Whether a layer looks across the samples of a batch; inside blocks too.
bool has_batch_norm(const std::vector<LayerSpec>& layers);

}  // namespace dtune
