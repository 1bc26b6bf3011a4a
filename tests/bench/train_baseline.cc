#include "bench/train_baseline.h"

#include <optional>

#include <torch/torch.h>

namespace dtune {
namespace {

constexpr int64_t kBatch = 128;
constexpr int64_t kSide = 28;

// As torch::data::datasets::MNIST keeps and hands out its samples.
class InMemory : public torch::data::datasets::Dataset<InMemory> {
 public:
  explicit InMemory(const BenchData& data) {
    const int64_t count = data.count();
    images_ = torch::empty({count, 1, kSide, kSide}, torch::kByte);
    std::copy(data.images.begin(), data.images.end(),
              images_.data_ptr<uint8_t>());
    images_ = images_.to(torch::kFloat32).div_(255);
    targets_ = torch::empty({count}, torch::kLong);
    std::copy(data.labels.begin(), data.labels.end(),
              targets_.data_ptr<int64_t>());
  }

  torch::data::Example<> get(size_t index) override {
    const auto i = static_cast<int64_t>(index);
    return {images_[i], targets_[i]};
  }

  torch::optional<size_t> size() const override {
    return static_cast<size_t>(images_.size(0));
  }

 private:
  torch::Tensor images_;
  torch::Tensor targets_;
};

struct Net : torch::nn::Module {
  Net()
      : conv1(torch::nn::Conv2dOptions(1, 32, 3).padding(1)),
        conv2(torch::nn::Conv2dOptions(32, 64, 3).padding(1)),
        fc1(64 * 7 * 7, 128),
        fc2(128, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(conv1->forward(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2);
    x = torch::relu(fc1->forward(x.view({x.size(0), -1})));
    x = torch::dropout(x, 0.25, is_training());
    return torch::log_softmax(fc2->forward(x), 1);
  }

  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::Linear fc1;
  torch::nn::Linear fc2;
};

auto make_loader(const BenchData& data) {
  return torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      InMemory(data)
          .map(torch::data::transforms::Normalize<>(0.286, 0.353))
          .map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions().batch_size(kBatch).drop_last(true));
}

using Loader = decltype(make_loader(BenchData{}));
using Batches = decltype(std::declval<Loader>()->begin());

}  // namespace

struct Baseline::Impl {
  explicit Impl(const BenchData& data)
      : loader(make_loader(data)),
        optimizer(
            net.parameters(),
            torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4)) {
    net.train();
  }

  torch::data::Example<> next_batch() {
    if (!batch || *batch == loader->end()) batch.emplace(loader->begin());
    torch::data::Example<> example = **batch;
    ++*batch;
    return example;
  }

  Net net;
  Loader loader;
  torch::optim::SGD optimizer;
  std::optional<Batches> batch;
};

Baseline::Baseline(const BenchData& data)
    : impl_(std::make_unique<Impl>(data)) {}
Baseline::~Baseline() = default;

double Baseline::train(int batches) {
  double last = 0;
  for (int i = 0; i < batches; ++i) {
    torch::data::Example<> batch = impl_->next_batch();
    impl_->optimizer.zero_grad();
    torch::Tensor loss =
        torch::nll_loss(impl_->net.forward(batch.data), batch.target);
    loss.backward();
    impl_->optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

}  // namespace dtune
