// The training loop that LibTorch's documentation would have a user write.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace dtune {

// images: [count, 28, 28] uint8. Single channel, ten classes.
struct BenchData {
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

// cnn-small in torch::nn modules, torch::data's loader with Stack<>,
// torch::optim::SGD and autograd.
class Baseline {
 public:
  explicit Baseline(const BenchData& data);
  ~Baseline();
  // Trains on this many batches of 128; returns the last batch's loss.
  double train(int batches);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
