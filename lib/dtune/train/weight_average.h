// A moving average of a network's weights (Polyak and Juditsky 1992, doi
// 10.1137/0330046, with the exponential weights of TensorFlow's
// ExponentialMovingAverage): it is judged and kept in place of the network that
// is trained. After update t
//   average += (1 - d) (weights - average),  d = min(decay, (1 + t) / (10 + t)),
// so that the first weights, which are random, are soon forgotten. Batch norm's
// running statistics are averaged likewise.
#pragma once

#include <cstdint>
#include <utility>

#include "dtune/nn/network.h"

namespace dtune {

class WeightAverage {
 public:
  // `average`: equal to the network that is trained, as it starts.
  WeightAverage(double decay, Network average)
      : decay_(decay), network_(std::move(average)) {}

  // What the average moves by after this update: 1 - d.
  double share(int64_t updates) const;
  // After the trained network's update of this number: 1, 2, ...
  void add(Network& trained, int64_t updates);
  // The same with its share as a tensor of one number, on the network's device.
  void add(Network& trained, const at::Tensor& share);

  Network& network() { return network_; }

 private:
  double decay_;
  Network network_;
};

}  // namespace dtune
