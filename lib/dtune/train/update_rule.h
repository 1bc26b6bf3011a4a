// One step of an optimizer over flat arrays: weights, gradients and state are
// read and written once. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/study/train_spec.h"

namespace dtune {

// Weights [begin, end) share an L2 strength.
struct DecayRun {
  int64_t begin = 0;
  int64_t end = 0;
  double l2 = 0;
};

// What a step needs beside the arrays.
struct UpdateStep {
  double lr = 0;              // of this batch
  int64_t number = 1;         // 1, 2, ...: for Adam's bias correction
  double gradient_scale = 1;  // from clipping
};

// The arrays; all of one length. `first`: velocity (sgd) or first moment;
// `second`: second moment (adam, adamw) or empty.
struct UpdateArrays {
  std::span<float> weights;
  std::span<float> gradients;  // are zero afterwards
  std::span<float> first;
  std::span<float> second;
};

inline constexpr double kAdamEpsilon = 1e-8;
// Added to the norm that gradients are clipped by.
inline constexpr double kClipEpsilon = 1e-6;
// What a gradient of this norm is multiplied with so that its norm is at most
// `clip_norm`; 1 where that is 0.
double clip_factor(double clip_norm, double norm);

// sgd, L2 coupled (Sutskever et al. 2013, in PyTorch's form: the learning rate
// multiplies the velocity when it is applied; dampening 0):
//   g += l2 w;  v = momentum v + g;  w -= lr (nesterov ? g + momentum v : v)
//
// adam, L2 coupled (Kingma and Ba 2014, arXiv 1412.6980, algorithm 1):
//   g += l2 w;  m = b1 m + (1 - b1) g;  s = b2 s + (1 - b2) g^2
//   w -= lr / (1 - b1^t) m / (sqrt(s / (1 - b2^t)) + 1e-8)
//
// adamw, L2 decoupled (Loshchilov and Hutter 2017, arXiv 1711.05101, algorithm
// 2, in PyTorch's form: the decay is multiplied with lr):
//   w -= lr l2 w;  then as adam with the plain g
//
// `runs` cover the arrays. Thread-safe for arrays that do not overlap.
void apply_update(const TrainSpec& train, const UpdateStep& step,
                  std::span<const DecayRun> runs, const UpdateArrays& arrays);

}  // namespace dtune
