#include "dtune/train/evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "dtune/train/device.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"
#include "dtune/train/process.h"
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

int64_t batch_size_for(int64_t image_elements) {
  return std::clamp<int64_t>((1 << 20) / image_elements, 16, 256);
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
  Network network(layers_for(request.recipe.model, *data), data->image_shape(),
                  NetworkOptions{.device = device});
  const Normalization normalization = load_model(request.model, *data, network);
  const BatchSource source(data, {split.split}, normalization);
  const std::atomic<bool> never = false;
  return answer_all(network, source, data->classes(), device, never)
      .metrics(split.prefix);
}

}  // namespace

Answers answer_all(Network& network, const BatchSource& source, int classes,
                   at::Device device, const std::atomic<bool>& stop) {
  const Shape& shape = source.image_shape();
  const int64_t most =
      std::min(batch_size_for(shape.elements()), source.count());
  const at::Tensor batch =
      at::empty({most, shape.channels, shape.height, shape.width},
                at::TensorOptions(at::kFloat)
                    .memory_format(at::MemoryFormat::ChannelsLast));
  std::vector<uint32_t> samples(static_cast<size_t>(most));
  std::vector<int32_t> labels(static_cast<size_t>(most));
  Answers answers(classes);
  for (int64_t first = 0; first < source.count(); first += most) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    const int64_t size = std::min(most, source.count() - first);
    samples.resize(static_cast<size_t>(size));
    labels.resize(static_cast<size_t>(size));
    std::iota(samples.begin(), samples.end(), static_cast<uint32_t>(first));
    const at::Tensor images = batch.narrow(0, 0, size);
    source.gather(
        samples, std::nullopt,
        {images.data_ptr<float>(), static_cast<size_t>(images.numel())},
        labels);
    const at::Tensor logits =
        network.forward(images.to(device), nullptr, PassContext{})
            .to(at::kCPU)
            .contiguous();
    answers.add({logits.data_ptr<float>(), static_cast<size_t>(logits.numel())},
                labels);
  }
  return answers;
}

std::map<std::string, double> evaluate_model(const EvalRequest& request) {
  const NamedSplit& split = find_split(request.split);
  use({.threads = request.threads,
       .deterministic = request.recipe.deterministic});
  const SingleThread exactly;
  return as_trial_failure(request.model.string(),
                          [&] { return judge(request, split); });
}

}  // namespace dtune
