#include "dtune/train/evaluate.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dtune/train/device.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"
#include "dtune/train/setup.h"
#include "dtune/train/torch_settings.h"
#include "dtune/train/trainer.h"

namespace dtune {
namespace {

struct NamedSplit {
  const char* name;
  const char* prefix;  // of its metrics
  Split split;
};

constexpr NamedSplit kSplits[] = {{"train", "train_", Split::train},
                                  {"validation", "val_", Split::validation},
                                  {"test", "test_", Split::test}};

const NamedSplit& find_split(const std::string& name) {
  for (const NamedSplit& split : kSplits) {
    if (name == split.name) return split;
  }
  throw Error(ErrorKind::config,
              fmt::format("split '{}' is unknown (use train, validation or "
                          "test)",
                          name));
}

std::map<std::string, double> judge(const EvalRequest& request,
                                    const NamedSplit& split) {
  const auto data = std::make_shared<const PreparedData>(request.prepared_data);
  if (data->count(split.split) == 0) {
    throw Error(ErrorKind::data,
                fmt::format("{}: the data have no {} split (choose another)",
                            request.model.string(), split.name));
  }
  const at::Device device = find_device(request.recipe.train.device);
  Network network(
      layers_for(request.recipe.model, *data), data->image_shape(),
      NetworkOptions{.device = device,
                     .compute = compute_type(request.recipe.train.precision)});
  const ModelMetadata model = load_model(request.model, *data, network);
  const BatchSource source(data, {split.split}, {model.mean, model.deviation});
  const std::atomic<bool> never = false;
  Predictions predictions =
      predict_all(network, source, data->classes(), device, never);
  predictions.set_threshold(model.threshold);
  std::map<std::string, double> metrics = predictions.metrics(split.prefix);
  const ThresholdRule rule = request.recipe.final_training.threshold;
  if (rule != ThresholdRule::half) {
    metrics[std::string(split.prefix) + "threshold"] = model.threshold;
  }
  return metrics;
}

}  // namespace

int64_t evaluation_batch_size(const Shape& image) {
  return std::clamp<int64_t>((1 << 20) / image.elements(), 16, 256);
}

EvaluationBatches::EvaluationBatches(BatchSource source, int classes,
                                     at::Device device)
    : source_(std::move(source)),
      classes_(classes),
      device_(device),
      most_(std::min(evaluation_batch_size(source_.image_shape()),
                     std::max<int64_t>(1, source_.count()))) {
  if (!device_.is_cpu()) {
    device_images_.emplace(source_, device_);
    return;
  }
  const Shape& shape = source_.image_shape();
  images_ = at::empty({most_, shape.channels, shape.height, shape.width},
                      at::TensorOptions(at::kFloat)
                          .memory_format(at::MemoryFormat::ChannelsLast));
}

int64_t EvaluationBatches::count() const {
  return (samples() + most_ - 1) / most_;
}

int64_t EvaluationBatches::first(int64_t batch) const {
  return std::min(batch * most_, samples());
}

std::vector<uint32_t> EvaluationBatches::numbers(int64_t batch) const {
  std::vector<uint32_t> numbers(static_cast<size_t>(size(batch)));
  std::iota(numbers.begin(), numbers.end(),
            static_cast<uint32_t>(first(batch)));
  return numbers;
}

std::vector<PlannedImage> EvaluationBatches::plan(int64_t batch) const {
  std::vector<PlannedImage> plan;
  source_.append_plan(numbers(batch), std::nullopt, plan);
  return plan;
}

at::Tensor EvaluationBatches::device_images(int64_t batch) {
  const at::Tensor images = device_images_->make(plan(batch));
  if (batch + 1 < count()) device_images_->prefetch(plan(batch + 1));
  return images;
}

at::Tensor EvaluationBatches::images(int64_t batch) {
  if (device_images_) return device_images(batch);
  const std::vector<uint32_t> samples = numbers(batch);
  std::vector<int32_t> labels(samples.size());
  const at::Tensor images = images_.narrow(0, 0, size(batch));
  source_.gather(
      samples, std::nullopt,
      {images.data_ptr<float>(), static_cast<size_t>(images.numel())}, labels);
  return images;
}

at::Tensor EvaluationBatches::answer(Network& network, int64_t batch) {
  return network.forward(images(batch), nullptr, PassContext{})
      .to(at::kCPU)
      .contiguous();
}

Predictions predict_all(Network& network, const BatchSource& source,
                        int classes, at::Device device,
                        const std::atomic<bool>& stop) {
  EvaluationBatches batches(source, classes, device);
  const std::vector<int32_t> labels = batches.labels();
  Predictions predictions(classes);
  for (int64_t batch = 0; batch < batches.count(); ++batch) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    const at::Tensor logits = batches.answer(network, batch);
    predictions.add(
        {logits.data_ptr<float>(), static_cast<size_t>(logits.numel())},
        std::span(labels).subspan(static_cast<size_t>(batches.first(batch)),
                                  static_cast<size_t>(batches.size(batch))));
  }
  return predictions;
}

std::map<std::string, double> evaluate_model(const EvalRequest& request) {
  const NamedSplit& split = find_split(request.split);
  use({.threads = request.threads,
       .deterministic = request.recipe.deterministic,
       .tf32 = allows_tf32(request.recipe.train.precision)});
  const SingleThread exactly;
  return as_trial_failure(request.model.string(),
                          [&] { return judge(request, split); });
}

}  // namespace dtune
