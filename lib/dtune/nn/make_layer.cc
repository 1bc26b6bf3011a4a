#include "dtune/nn/layer.h"

namespace dtune {

LayerPtr make_layer(const LayerSpec& spec, const Shape& input,
                    ParameterPool& pool, Fusion fusion) {
  switch (spec.kind) {
    case LayerKind::conv:
      return make_conv(spec, input, pool);
    case LayerKind::linear:
      return spec.groups > 1 ? make_grouped_linear(spec, input, pool)
                             : make_linear(spec, input, pool);
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
      return make_residual(spec, input, pool, {.fusion = fusion});
  }
  throw Error(ErrorKind::internal, "nn: layer of unknown kind");
}

}  // namespace dtune
