// The training loop that LibTorch's documentation would have a user write.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtune/study/layers.h"

namespace dtune {

// images: [count, H, W, C] uint8.
struct BenchData {
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  Shape image;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

struct BaselineOptions {
  int batch = 128;
  bool channels_last = false;  // images and weights; else LibTorch's default
};

// A list of layers as torch::nn modules, torch::data's loader with Stack<>,
// torch::optim::SGD and autograd.
class Baseline {
 public:
  Baseline(const BenchData& data, const std::vector<LayerSpec>& layers,
           const BaselineOptions& options);
  ~Baseline();
  // Trains on this many batches; returns the last batch's loss.
  double train(int batches);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
