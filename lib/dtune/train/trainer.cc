#include "dtune/train/trainer.h"

#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/schedule.h"

namespace dtune {
namespace {

uint64_t seed_for(uint64_t seed, std::string_view purpose) {
  return mix_seed({seed, hash_text(purpose)});
}

std::vector<Split> training_splits(const TrainerOptions& options) {
  if (options.with_validation) return {Split::train, Split::validation};
  return {Split::train};
}

std::vector<double> class_weights(const DataSpec& data,
                                  const BatchSource& source) {
  if (!data.balance) return {};
  return balanced_weights(source.class_counts());
}

uint64_t hash_layers(const std::vector<LayerSpec>& layers) {
  uint64_t hash = layers.size();
  for (const LayerSpec& layer : layers) {
    const auto number = [](int value) { return static_cast<uint64_t>(value); };
    hash = mix_seed({hash, number(static_cast<int>(layer.kind)),
                     hash_text(layer.name), number(layer.channels),
                     number(layer.kernel), number(layer.stride),
                     number(layer.padding), number(layer.groups),
                     number(layer.bias ? 1 : 0), hash_layers(layer.body),
                     hash_layers(layer.shortcut)});
  }
  return hash;
}

uint64_t hash_architecture(const Recipe& recipe, const PreparedData& data) {
  const Shape shape = data.image_shape();
  return mix_seed({hash_layers(layers_for(recipe.model, data)),
                   hash_text(to_string(shape))});
}

Network make_network(const Recipe& recipe, const TrainerOptions& options,
                     const PreparedData& data) {
  return {layers_for(recipe.model, data), data.image_shape(),
          NetworkOptions{.device = options.device,
                         .init_seed = seed_for(options.seed, "weights")}};
}

at::Tensor batch_tensor(int64_t samples, const Shape& shape) {
  return at::empty({samples, shape.channels, shape.height, shape.width},
                   at::TensorOptions(at::kFloat)
                       .memory_format(at::MemoryFormat::ChannelsLast));
}

template <typename T>
std::span<T> span_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::remove_const_t<T>>(),
          static_cast<size_t>(tensor.numel())};
}

uint64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.nbytes() : 0;
}

}  // namespace

std::vector<LayerSpec> layers_for(const ModelSpec& model,
                                  const PreparedData& data) {
  std::vector<LayerSpec> layers =
      expand_model(model, data.image_shape(), data.classes());
  infer_shapes(layers, data.image_shape());
  return layers;
}

Trainer::Trainer(const Recipe& recipe, const TrainerOptions& options,
                 std::shared_ptr<const PreparedData> data)
    : train_(recipe.train),
      augment_(recipe.data.augment),
      options_(options),
      classes_(data->classes()),
      source_(data, training_splits(options),
              normalization_of(*data, recipe.data.normalize)),
      order_(source_.count(), recipe.train.batch_size,
             seed_for(options.seed, "order")),
      loss_(recipe.train, classes_, class_weights(recipe.data, source_)),
      architecture_(hash_architecture(recipe, *data)),
      network_(make_network(recipe, options, *data)),
      optimizer_(recipe.train, network_),
      images_(batch_tensor(order_.largest_batch(), data->image_shape())) {}

LossTotals Trainer::train_to(int64_t end, const std::atomic<bool>& stop,
                             const AfterBatch& after_batch) {
  LossTotals totals;
  while (position_ < end) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    const BatchRange batch = order_.at(position_);
    totals += train_batch(batch);
    position_ += batch.size;
    if (after_batch) after_batch(position_);
  }
  return totals;
}

LossTotals Trainer::train_batch(const BatchRange& batch) {
  const at::Tensor images = images_.narrow(0, 0, batch.size);
  labels_.resize(static_cast<size_t>(batch.size));
  source_.gather(
      order_.samples(batch),
      AugmentKey{augment_, seed_for(options_.seed, "augment"), batch.epoch},
      span_of<float>(images), labels_);
  const PassContext context{
      .training = true,
      .seed = mix_seed({seed_for(options_.seed, "dropout"),
                        static_cast<uint64_t>(batch.number)})};
  const at::Tensor logits =
      network_.forward(images.to(options_.device), &tape_, context)
          .to(at::kCPU)
          .contiguous();
  at::Tensor gradient = at::empty_like(logits);
  const LossTotals totals =
      loss_(span_of<const float>(logits), labels_, span_of<float>(gradient));
  if (!std::isfinite(totals.loss)) {
    fail_diverged("training loss", totals.loss, batch);
  }
  network_.backward(gradient.to(options_.device), tape_);
  if (!optimizer_.update(learning_rate(batch))) {
    fail_diverged("gradient's norm", std::nan(""), batch);
  }
  return totals;
}

double Trainer::learning_rate(const BatchRange& batch) const {
  const double middle =
      static_cast<double>(position_) + static_cast<double>(batch.size) / 2;
  return train_.lr * schedule_factor(train_.schedule,
                                     middle / static_cast<double>(count()),
                                     options_.epochs);
}

void Trainer::fail_diverged(const char* what, double value,
                            const BatchRange& batch) const {
  throw TrialFailure(
      Reason::diverged,
      fmt::format("diverged: the {} became {} in epoch {:.2f} (batch {}) at a "
                  "learning rate of {:.3g} (use a smaller lr, a warm-up or "
                  "clip_norm)",
                  what, value,
                  static_cast<double>(position_) / static_cast<double>(count()),
                  batch.number + 1, learning_rate(batch)));
}

uint64_t Trainer::resident_bytes() {
  uint64_t bytes = bytes_of(network_.weights()) +
                   bytes_of(network_.gradients()) +
                   bytes_of(network_.buffers()) + bytes_of(images_);
  for (const Optimizer::State& state : optimizer_.state()) {
    bytes += bytes_of(state.values);
  }
  return bytes + static_cast<uint64_t>(count()) * sizeof(uint32_t);
}

}  // namespace dtune
