// What a network should compute, by LibTorch's autograd.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "dtune/nn/network.h"

namespace dtune {

struct OracleResult {
  at::Tensor y;
  at::Tensor dx;
  at::Tensor gradients;  // as Network::gradients()
};

// Runs `layers` on x with the network's weights and sums y * dy backwards.
// Dropout is left out. Running statistics are not touched.
OracleResult run_oracle(const std::vector<LayerSpec>& layers, Network& network,
                        const at::Tensor& x, const at::Tensor& dy,
                        bool training = true);

// Largest difference over the largest magnitude of `expected`.
double relative_error(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace dtune
