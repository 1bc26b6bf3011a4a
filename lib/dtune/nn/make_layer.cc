#include "dtune/nn/layer.h"

namespace dtune {
namespace {

LayerPtr make(const LayerSpec& spec, const Shape& input, ParameterPool& pool) {
  switch (spec.kind) {
    case LayerKind::conv:
      return make_conv(spec, input, pool);
    case LayerKind::linear:
      return make_linear(spec, input, pool);
    case LayerKind::batch_norm:
      return make_batch_norm(spec, input, pool);
    case LayerKind::group_norm:
      return make_group_norm(spec, input, pool);
    case LayerKind::relu:
      return make_relu();
    case LayerKind::gelu:
      return make_gelu();
    case LayerKind::tanh:
      return make_tanh();
    case LayerKind::max_pool:
      return make_max_pool(spec);
    case LayerKind::avg_pool:
      return make_avg_pool(spec);
    case LayerKind::global_avg_pool:
      return make_global_avg_pool();
    case LayerKind::flatten:
      return make_flatten();
    case LayerKind::dropout:
      return make_dropout(spec);
    case LayerKind::residual:
      return make_residual(spec, input, pool);
  }
  throw Error(ErrorKind::internal, "nn: layer of unknown kind");
}

}  // namespace

LayerPtr make_layer(const LayerSpec& spec, const Shape& input,
                    ParameterPool& pool, Shape& output) {
  const Shape before = input;  // `output` may be the same object
  LayerPtr layer = make(spec, before, pool);
  output = infer_shapes({spec}, before).front().output;
  return layer;
}

}  // namespace dtune
