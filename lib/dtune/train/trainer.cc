#include "dtune/train/trainer.h"

#include <array>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/data/split.h"
#include "dtune/nn/fused_network.h"
#include "dtune/nn/mask.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/setup.h"

namespace dtune {
namespace {

Network make_network(const std::vector<LayerSpec>& layers, const Recipe& recipe,
                     const TrainerOptions& options, const PreparedData& data) {
  return {layers, data.image_shape(),
          NetworkOptions{.device = options.device,
                         .init_seed = seed_for(options.seed, "weights"),
                         .compute = compute_type(recipe.train.precision)}};
}

BatchSource training_source(const Recipe& recipe, const TrainerOptions& options,
                            std::shared_ptr<const PreparedData> data) {
  const int classes = data->classes();
  const Normalization by = normalization_of(*data, recipe.data.normalize);
  BatchSource source(std::move(data), training_splits(options.with_validation),
                     by);
  if (options.share >= 1) return source;
  std::vector<int64_t> all(static_cast<size_t>(source.count()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const std::vector<int64_t> kept = keep_stratified(
      all, source.labels(), classes,
      std::max<int64_t>(
          std::llround(options.share * static_cast<double>(all.size())), 2),
      recipe.data.split_seed);
  source.keep({kept.begin(), kept.end()});
  return source;
}

template <typename T>
std::span<T> span_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::remove_const_t<T>>(),
          static_cast<size_t>(tensor.numel())};
}

uint64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.nbytes() : 0;
}

// Of all layers for one sample, those in branches of residuals included.
int64_t output_elements(const std::vector<LayerSpec>& layers, Shape shape) {
  const std::vector<LayerInfo> infos = infer_shapes(layers, shape);
  int64_t sum = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    sum += infos[i].output.elements() + output_elements(layers[i].body, shape) +
           output_elements(layers[i].shortcut, shape);
    shape = infos[i].output;
  }
  return sum;
}

}  // namespace

uint64_t architecture_of(const Recipe& recipe, const PreparedData& data) {
  const Shape shape = data.image_shape();
  const uint64_t network =
      mix_seed({fingerprint(layers_for(recipe.model, data)),
                hash_text(to_string(shape))});
  const Precision precision = recipe.train.precision;
  if (precision == Precision::automatic) return network;
  return mix_seed({network, hash_text(to_string(precision))});
}

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
      source_(training_source(recipe, options, data)),
      order_(source_.count(), recipe.train.batch_size,
             seed_for(options.seed, "order")),
      loss_(recipe.train, classes_, class_weights(recipe.data, source_)),
      architecture_(architecture_of(recipe, *data)),
      layers_(layers_for(recipe.model, *data)),
      network_(make_network(layers_, recipe, options, *data)),
      optimizer_(recipe.train, network_),
      images_(batch_tensor(0, data->image_shape())) {
  if (options_.as_device || !options_.device.is_cpu()) {
    device_images_.emplace(source_, options_.device);
    step_.emplace(options_.device, train_.batch_size,
                  make_recording(options_.device));
    for (const auto& [layer, p] : dropout_of(layers_)) {
      dropouts_.push_back(layer);
    }
  } else {
    batch_images(order_.largest_batch());
  }
  if (train_.ema > 0) {
    average_.emplace(train_.ema, make_network(layers_, recipe, options, *data));
  }
}

LossTotals Trainer::train_to(int64_t end, const std::atomic<bool>& stop,
                             const AfterBatch& after_batch) {
  if (device_images_) return train_ahead(end, stop, after_batch);
  LossTotals totals;
  while (position_ < end) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    const BatchRange batch = next_batch();
    gather(batch);
    const LossTotals sums = forward();
    check_loss(sums, batch);
    backward();
    update(batch);
    totals += sums;
    if (after_batch) after_batch(position_);
  }
  return totals;
}

LossTotals Trainer::train_ahead(int64_t end, const std::atomic<bool>& stop,
                                const AfterBatch& after_batch) {
  LossTotals totals;
  std::vector<BatchInWork> unread;
  while (position_ < end) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    unread.push_back(train_without_waiting(next_batch()));
    if (position_ < end) prefetch();
    if (after_batch) after_batch(position_);
    if (unread.size() == kAhead || position_ >= end) totals += read(unread);
  }
  return totals;
}

BatchInWork Trainer::train_without_waiting(const BatchRange& batch) {
  gather(batch);
  const at::Device& device = options_.device;
  const std::vector<JudgedBatch> judged = {judged_batch()};
  const auto compute =
      [this, kinds = judging_kinds(judged)](const StepInputs& inputs) {
        return compute_batch(inputs, kinds);
      };
  const at::Tensor outcome =
      step_->run({.images = images(),
                  .judging = judging_numbers(judged, device),
                  .masks = batch_mask_keys(dropouts_, {&pass_.seed, 1},
                                           batch.size, device),
                  .update = update_numbers({next_update(batch)}, device)},
                 compute);
  updated(batch);
  return {batch, loss_.weight(targets()), outcome};
}

at::Tensor Trainer::compute_batch(const StepInputs& inputs,
                                  const JudgingKinds& kinds) {
  const PassContext pass{.training = true,
                         .mask_keys = masks_by_layer(inputs, dropouts_)};
  const at::Tensor logits = network_.forward(inputs.images, &tape_, pass);
  const DeviceLosses losses =
      device_losses(logits.unsqueeze(0), inputs.judging, kinds);
  network_.backward(losses.gradients.squeeze(0), tape_, /*need_dx=*/false);
  const at::Tensor norm = optimizer_.update_ahead(inputs.update);
  if (average_) average_->add(network_, average_shares(inputs.update)[0]);
  return at::cat({losses.losses, losses.correct, norm});
}

// Reads all at once, in order.
LossTotals Trainer::read(std::vector<BatchInWork>& batches) const {
  LossTotals totals;
  if (batches.empty()) return totals;
  std::vector<at::Tensor> outcomes;
  outcomes.reserve(batches.size());
  for (const BatchInWork& one : batches) outcomes.push_back(one.outcome);
  const at::Tensor all = at::stack(outcomes).to(at::kCPU);
  const auto* out = all.data_ptr<double>();
  for (const BatchInWork& one : batches) {
    totals += totals_of(one.batch, out[0], out[1], one.weight, out[2]);
    out += 3;
  }
  batches.clear();
  return totals;
}

LossTotals Trainer::totals_of(const BatchRange& batch, double loss,
                              double correct, double weight,
                              double norm) const {
  const TrainingProgress then = progress_at(batch);
  if (!std::isfinite(loss)) throw diverged_loss(loss, then, batch);
  if (!std::isfinite(norm)) throw diverged_gradient(then, batch);
  return {.loss = loss,
          .weight = weight,
          .correct = static_cast<int64_t>(correct),
          .samples = batch.size};
}

// What the next batch needs of pixels, while the device computes.
void Trainer::prefetch() {
  if (device_images_->resident()) return;
  const BatchRange next = next_batch();
  std::vector<PlannedImage> plan;
  source_.append_plan(order_.samples(next), augment_key(next.epoch), plan);
  device_images_->prefetch(plan);
}

AugmentKey Trainer::augment_key(int64_t epoch) const {
  return {augment_, seed_for(options_.seed, "augment"), epoch};
}

void Trainer::gather(const BatchRange& batch) {
  const std::array<Span, 1> whole = {{{batch.first, batch.size}}};
  gather({.epoch = batch.epoch, .number = batch.number, .spans = whole});
}

void Trainer::check(const BatchPart& part) const {
  for (const Span& span : part.spans) {
    if (span.first < 0 || span.size < 0 || span.first > count() - span.size) {
      throw Error(ErrorKind::comm,
                  fmt::format("gang: samples {} to {} of an epoch of {} were "
                              "asked for (the peers run different versions)",
                              span.first, span.first + span.size, count()));
    }
  }
}

at::Tensor Trainer::batch_images(int64_t samples) {
  if (samples > images_.size(0)) {
    images_ = batch_tensor(samples, source_.image_shape());
  }
  return images_.narrow(0, 0, samples);
}

int64_t Trainer::gather(const BatchPart& part) {
  check(part);
  int64_t samples = 0;
  for (const Span& span : part.spans) samples += span.size;
  std::span<float> images;
  if (!device_images_) images = span_of<float>(batch_images(samples));
  plan_.clear();
  labels_.resize(static_cast<size_t>(samples));
  mix_ = {};
  const AugmentKey key = augment_key(part.epoch);
  const auto elements = static_cast<size_t>(source_.image_shape().elements());
  size_t done = 0;
  for (const Span& span : part.spans) {
    const auto size = static_cast<size_t>(span.size);
    const std::span<const uint32_t> numbers = order_.samples(
        {.epoch = part.epoch, .first = span.first, .size = span.size});
    const auto labels = std::span(labels_).subspan(done, size);
    if (device_images_) {
      source_.append_plan(numbers, key, plan_);
      source_.labels(numbers, labels);
    } else {
      source_.gather(numbers, key,
                     images.subspan(done * elements, size * elements), labels);
    }
    source_.append_mix(numbers, key, mix_);
    done += size;
  }
  pass_ = training_pass(options_.seed, part.number);
  pass_.first_sample = part.first_sample;
  return samples;
}

at::Tensor Trainer::images() {
  return device_images_ ? device_images_->make(plan_)
                        : batch_images(static_cast<int64_t>(labels_.size()));
}

Targets Trainer::targets() const {
  if (mix_.others.empty()) return labels_;
  return {labels_, mix_.others, mix_.shares};
}

LossTotals Trainer::forward() {
  if (labels_.empty()) return {};
  return judge(
      network_.forward(images(), &tape_, pass_).to(at::kCPU).contiguous());
}

LossTotals Trainer::judge(const at::Tensor& logits) {
  logits_gradient_ = at::empty_like(logits);
  return loss_(span_of<const float>(logits), targets(),
               span_of<float>(logits_gradient_));
}

void Trainer::backward(const Network::GradientReady& ready) {
  if (labels_.empty()) {
    if (ready) ready(0);
    return;
  }
  network_.backward(logits_gradient_.to(options_.device), tape_,
                    /*need_dx=*/false, ready);
}

void Trainer::check_loss(const LossTotals& totals,
                         const BatchRange& batch) const {
  if (!std::isfinite(totals.loss)) {
    throw diverged_loss(totals.loss, progress(), batch);
  }
}

TrialFailure Trainer::diverged_loss(double loss,
                                    const TrainingProgress& progress,
                                    const BatchRange& batch) const {
  return diverged("training loss", loss, train_, progress, batch);
}

TrialFailure Trainer::diverged_gradient(const TrainingProgress& progress,
                                        const BatchRange& batch) const {
  return diverged("gradient's norm", std::nan(""), train_, progress, batch);
}

void Trainer::update(const BatchRange& batch) {
  if (!optimizer_.update(learning_rate(train_, progress(), batch))) {
    throw diverged_gradient(progress(), batch);
  }
  if (average_) average_->add(network_, optimizer_.updates());
  position_ += batch.size;
}

RowStep Trainer::next_update(const BatchRange& batch) const {
  const int64_t number = optimizer_.updates() + 1;
  RowStep row{.train = &train_,
              .step = {.lr = learning_rate(train_, progress(), batch),
                       .number = number}};
  if (train_.clip_norm > 0) row.clip_norm = train_.clip_norm;
  if (average_) row.average = average_->share(number);
  return row;
}

void Trainer::updated(const BatchRange& batch) {
  optimizer_.set_updates(optimizer_.updates() + 1);
  position_ += batch.size;
}

uint64_t Trainer::resident_bytes() {
  uint64_t bytes = bytes_of(network_.weights()) +
                   bytes_of(network_.gradients()) +
                   bytes_of(network_.buffers()) + bytes_of(images_);
  for (const Optimizer::State& state : optimizer_.state()) {
    bytes += bytes_of(state.values);
  }
  if (average_) {
    Network& average = average_->network();
    bytes += bytes_of(average.weights()) + bytes_of(average.gradients()) +
             bytes_of(average.buffers());
  }
  return bytes + static_cast<uint64_t>(count()) * sizeof(uint32_t);
}

// A step's recording keeps what the step needs, and batches of another size need
// as much beside it.
uint64_t Trainer::working_bytes() {
  constexpr uint64_t kOfLibraries = uint64_t{256} << 20;
  const auto outputs = static_cast<uint64_t>(
      output_elements(layers_, source_.image_shape()) * train_.batch_size);
  return resident_bytes() + 2 * outputs * sizeof(float) + kOfLibraries;
}

}  // namespace dtune
