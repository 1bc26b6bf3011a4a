// Makers of the layers that networks are built from, one file each. A maker
// declares the layer's weights in `pool`, whose views are usable only after
// pool.allocate(); the pool must outlive the layer.
#pragma once

#include <memory>

#include "dtune/nn/parameters.h"

namespace dtune {

using LayerPtr = std::unique_ptr<Layer>;

// Whose fast layers may stand for several of a list (fuse.h).
enum class Fusion { none, cpu, gpu };

// The layer that `spec` says, for inputs of the given shape; `fusion`: in a
// residual's branches. REQUIRES: infer_shapes({spec}, input) passed.
LayerPtr make_layer(const LayerSpec& spec, const Shape& input,
                    ParameterPool& pool, Fusion fusion);

LayerPtr make_conv(const LayerSpec& spec, const Shape& input,
                   ParameterPool& pool);
LayerPtr make_linear(const LayerSpec& spec, const Shape& input,
                     ParameterPool& pool);
// Of spec.groups linear layers side by side; recipes have none.
LayerPtr make_grouped_linear(const LayerSpec& spec, const Shape& input,
                             ParameterPool& pool);
LayerPtr make_batch_norm(const LayerSpec& spec, const Shape& input,
                         ParameterPool& pool);
LayerPtr make_group_norm(const LayerSpec& spec, const Shape& input,
                         ParameterPool& pool);
LayerPtr make_relu();
LayerPtr make_gelu();
LayerPtr make_tanh();
LayerPtr make_max_pool(const LayerSpec& spec);
LayerPtr make_avg_pool(const LayerSpec& spec);
LayerPtr make_global_avg_pool();
LayerPtr make_flatten();
LayerPtr make_dropout(const LayerSpec& spec);

struct ResidualOptions {
  Fusion fusion = Fusion::none;  // in its branches
  bool relu = false;             // of the sum
};
LayerPtr make_residual(const LayerSpec& spec, const Shape& input,
                       ParameterPool& pool, const ResidualOptions& options);

}  // namespace dtune
