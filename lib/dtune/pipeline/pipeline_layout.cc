#include "dtune/pipeline/pipeline_layout.h"

#include <algorithm>
#include <cstddef>

#include "dtune/base/error.h"

namespace dtune {
namespace {

// Running statistics: a mean and a variance for each channel.
int64_t buffers_of(const std::vector<LayerSpec>& layers, const Shape& input) {
  const std::vector<LayerInfo> infos = infer_shapes(layers, input);
  int64_t count = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Shape& shape = i == 0 ? input : infos[i - 1].output;
    if (layers[i].kind == LayerKind::batch_norm) count += 2 * shape.channels;
    if (layers[i].kind == LayerKind::residual) {
      count += buffers_of(layers[i].body, shape) +
               buffers_of(layers[i].shortcut, shape);
    }
  }
  return count;
}

int64_t weights_of(const StageLayers& stage) {
  int64_t count = 0;
  for (const LayerInfo& info : infer_shapes(stage.layers, stage.input)) {
    count += info.parameters;
  }
  return count;
}

}  // namespace

StageLayers layers_of_stage(const std::vector<LayerSpec>& layers,
                            const Shape& input, std::span<const int> first,
                            int stage) {
  const std::vector<LayerInfo> infos = infer_shapes(layers, input);
  const auto at = static_cast<size_t>(stage);
  const auto begin = static_cast<size_t>(first[at]);
  const size_t end = at + 1 < first.size() ? static_cast<size_t>(first[at + 1])
                                           : layers.size();
  DTUNE_CHECK(begin < end && end <= layers.size());
  const auto from = layers.begin();
  return {.layers = {from + static_cast<std::ptrdiff_t>(begin),
                     from + static_cast<std::ptrdiff_t>(end)},
          .input = begin == 0 ? input : infos[begin - 1].output,
          .output = infos[end - 1].output};
}

std::vector<StageSlice> slices_of_stages(const std::vector<LayerSpec>& layers,
                                         const Shape& input,
                                         std::span<const int> first) {
  std::vector<StageSlice> slices;
  StageSlice next;
  for (int stage = 0; stage < static_cast<int>(first.size()); ++stage) {
    const StageLayers part = layers_of_stage(layers, input, first, stage);
    next.first_weight += next.weights;
    next.first_buffer += next.buffers;
    next.weights = weights_of(part);
    next.buffers = buffers_of(part.layers, part.input);
    slices.push_back(next);
  }
  return slices;
}

bool has_batch_norm(const std::vector<LayerSpec>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const LayerSpec& layer) {
    return layer.kind == LayerKind::batch_norm || has_batch_norm(layer.body) ||
           has_batch_norm(layer.shortcut);
  });
}

}  // namespace dtune
