// The network of surrogate/conv_lstm.h in LibTorch's operations, which autograd
// differentiates. The program's own inference computes the same, to rounding.
#pragma once

#include <span>

#include <ATen/ATen.h>

#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/study_sampler.h"

namespace dtune {

// [studies, places, kOutputs] float32: what the head answers for each place,
// [frame][lr][l2][dropout] as in a GridFeatures.
// `parameters`: all weights in a row, in the order of the file's tensors.
at::Tensor conv_lstm_outputs(const ConvLstmShape& shape,
                             const at::Tensor& parameters,
                             std::span<const GridFeatures* const> studies);

// [samples] float64: of each the weighted mean of -ln density of the targets
// (metric units), in nats. What has weight 0 may be anything; without any
// weight the loss is 0.
at::Tensor conv_lstm_losses(const ConvLstmShape& shape,
                            const at::Tensor& parameters,
                            std::span<const TrainingSample> samples);

}  // namespace dtune
