#include "bench/train_baseline.h"

#include <optional>
#include <utility>

#include <torch/torch.h>

namespace dtune {
namespace {

// As torch::data::datasets::MNIST keeps and hands out its samples.
class InMemory : public torch::data::datasets::Dataset<InMemory> {
 public:
  explicit InMemory(const BenchData& data) {
    const int64_t count = data.count();
    const Shape& image = data.image;
    images_ = torch::empty({count, image.height, image.width, image.channels},
                           torch::kByte);
    std::copy(data.images.begin(), data.images.end(),
              images_.data_ptr<uint8_t>());
    images_ =
        images_.permute({0, 3, 1, 2})
            .to(torch::kFloat32, false, true, at::MemoryFormat::Contiguous)
            .div_(255);
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

torch::nn::AnyModule module_of(const LayerSpec& spec, const Shape& input);

// A list of layers, and what is added to its result: nothing or the shortcut.
struct NetImpl : torch::nn::Module {
  NetImpl(const std::vector<LayerSpec>& layers, Shape shape) {
    for (const LayerSpec& spec : layers) {
      if (spec.kind == LayerKind::residual) {
        add_residual(spec, shape);
      } else {
        modules_.push_back(module_of(spec, shape));
        register_module(spec.name, modules_.back().ptr());
      }
      shape = infer_shapes({spec}, shape).front().output;
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (auto& module : modules_) x = module.forward(x);
    return x;
  }

 private:
  void add_residual(const LayerSpec& spec, const Shape& shape);

  std::vector<torch::nn::AnyModule> modules_;
};
TORCH_MODULE(Net);

struct ResidualImpl : torch::nn::Module {
  ResidualImpl(const LayerSpec& spec, const Shape& shape)
      : body(spec.body, shape), shortcut(spec.shortcut, shape) {
    register_module("body", body);
    register_module("shortcut", shortcut);
  }

  torch::Tensor forward(torch::Tensor x) {
    return body->forward(x) + shortcut->forward(x);
  }

  Net body;
  Net shortcut;
};
TORCH_MODULE(Residual);

void NetImpl::add_residual(const LayerSpec& spec, const Shape& shape) {
  modules_.emplace_back(Residual(spec, shape));
  register_module(spec.name, modules_.back().ptr());
}

torch::nn::AnyModule conv_of(const LayerSpec& spec, const Shape& input) {
  return torch::nn::AnyModule(torch::nn::Conv2d(
      torch::nn::Conv2dOptions(input.channels, spec.channels, spec.kernel)
          .stride(spec.stride)
          .padding(effective_padding(spec))
          .groups(spec.groups)
          .bias(spec.bias)));
}

torch::nn::AnyModule functional(
    std::function<torch::Tensor(torch::Tensor)> function) {
  return torch::nn::AnyModule(torch::nn::Functional(std::move(function)));
}

torch::nn::AnyModule module_of(const LayerSpec& spec, const Shape& input) {
  switch (spec.kind) {
    case LayerKind::conv:
      return conv_of(spec, input);
    case LayerKind::linear:
      return torch::nn::AnyModule(
          torch::nn::Linear(input.elements(), spec.channels));
    case LayerKind::batch_norm:
      return torch::nn::AnyModule(torch::nn::BatchNorm2d(input.channels));
    case LayerKind::relu:
      return functional([](torch::Tensor x) { return torch::relu(x); });
    case LayerKind::tanh:
      return functional([](torch::Tensor x) { return torch::tanh(x); });
    case LayerKind::max_pool:
      return torch::nn::AnyModule(torch::nn::MaxPool2d(
          torch::nn::MaxPool2dOptions(spec.kernel).stride(spec.stride)));
    case LayerKind::avg_pool:
      return torch::nn::AnyModule(torch::nn::AvgPool2d(
          torch::nn::AvgPool2dOptions(spec.kernel).stride(spec.stride)));
    case LayerKind::global_avg_pool:
      return functional([](torch::Tensor x) { return x.mean({2, 3}); });
    case LayerKind::flatten:
      return torch::nn::AnyModule(torch::nn::Flatten());
    case LayerKind::dropout:
      return torch::nn::AnyModule(torch::nn::Dropout(spec.p));
    default:
      throw Error(ErrorKind::internal, "bench: no module for " + spec.name);
  }
}

auto make_loader(const BenchData& data, int batch) {
  return torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      InMemory(data)
          .map(torch::data::transforms::Normalize<>(0.286, 0.353))
          .map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions()
          .batch_size(static_cast<size_t>(batch))
          .drop_last(true));
}

using Loader = decltype(make_loader(BenchData{}, 1));
using Batches = decltype(std::declval<Loader>()->begin());

}  // namespace

struct Baseline::Impl {
  Impl(const BenchData& data, const std::vector<LayerSpec>& layers,
       const BaselineOptions& chosen)
      : options(chosen),
        net(layers, data.image),
        loader(make_loader(data, chosen.batch)),
        optimizer(
            net->parameters(),
            torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4)) {
    net->train();
    if (!options.channels_last) return;
    for (torch::Tensor& weight : net->parameters()) {
      if (weight.dim() != 4) continue;
      weight.set_data(
          weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
    }
  }

  torch::data::Example<> next_batch() {
    if (!batch || *batch == loader->end()) batch.emplace(loader->begin());
    torch::data::Example<> example = **batch;
    ++*batch;
    if (options.channels_last) {
      example.data = example.data.contiguous(at::MemoryFormat::ChannelsLast);
    }
    return example;
  }

  BaselineOptions options;
  Net net;
  Loader loader;
  torch::optim::SGD optimizer;
  std::optional<Batches> batch;
};

Baseline::Baseline(const BenchData& data, const std::vector<LayerSpec>& layers,
                   const BaselineOptions& options)
    : impl_(std::make_unique<Impl>(data, layers, options)) {}
Baseline::~Baseline() = default;

double Baseline::train(int batches) {
  double last = 0;
  for (int i = 0; i < batches; ++i) {
    torch::data::Example<> batch = impl_->next_batch();
    impl_->optimizer.zero_grad();
    torch::Tensor loss = torch::cross_entropy_loss(
        impl_->net->forward(batch.data), batch.target);
    loss.backward();
    impl_->optimizer.step();
    last = loss.item<double>();
  }
  return last;
}

}  // namespace dtune
