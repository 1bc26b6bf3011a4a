// Pipelines whose members are threads of this process.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "comm/local_collective.h"
#include <ATen/Parallel.h>

#include "dtune/base/file.h"
#include "dtune/data/prepared.h"
#include "dtune/pipeline/pipeline_trainer.h"

namespace dtune {

// Runs `work(member)` on a thread for each; rethrows what the first of them
// threw.
inline void on_members(int members, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(members));
  std::vector<std::thread> threads;
  for (int member = 0; member < members; ++member) {
    threads.emplace_back([&, member] {
      try {
        at::set_num_threads(1);
        work(member);
      } catch (...) {
        errors[static_cast<size_t>(member)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// A few images in a temporary folder: 150 to train on, 41 to judge by.
class SmallImages {
 public:
  explicit SmallImages(int size = 8) {
    DataSpec spec;
    spec.kind = DataKind::synthetic;
    spec.classes = 3;
    spec.channels = 2;
    spec.samples = 191;
    spec.height = size;
    spec.width = size;
    spec.difficulty = 0.3;
    spec.validation = 41;
    data_ = std::make_shared<const PreparedData>(
        prepare_data(spec, folder_.path() / "cache"));
  }

  const std::shared_ptr<const PreparedData>& data() const { return data_; }
  std::filesystem::path path(const std::string& name) const {
    return folder_.path() / name;
  }

 private:
  TemporaryDirectory folder_;
  std::shared_ptr<const PreparedData> data_;
};

inline LayerSpec layer(LayerKind kind, const std::string& name,
                       int channels = 0, int kernel = 0) {
  LayerSpec spec;
  spec.kind = kind;
  spec.name = name;
  spec.channels = channels;
  spec.kernel = kernel;
  if (kind == LayerKind::max_pool) spec.stride = kernel;
  if (kind == LayerKind::group_norm) spec.groups = 2;
  return spec;
}

// Ten layers without batch norm, dropout in the middle and near the end.
inline std::vector<LayerSpec> plain_layers() {
  LayerSpec early = layer(LayerKind::dropout, "drop1");
  early.p = 0.2;
  LayerSpec late = layer(LayerKind::dropout, "drop2");
  late.p = 0.3;
  return {layer(LayerKind::conv, "conv1", 16, 3),
          layer(LayerKind::relu, "relu1"),
          layer(LayerKind::max_pool, "pool1", 0, 2),
          early,
          layer(LayerKind::conv, "conv2", 8, 3),
          layer(LayerKind::group_norm, "norm2"),
          layer(LayerKind::gelu, "gelu2"),
          layer(LayerKind::linear, "fc1", 12),
          layer(LayerKind::tanh, "tanh"),
          late,
          layer(LayerKind::linear, "fc2", 3)};
}

// Batches of 37 of 150 samples: the last of an epoch has two.
inline Recipe pipeline_recipe() {
  Recipe recipe;
  recipe.model.layers = plain_layers();
  recipe.train.epochs = 3;
  recipe.train.batch_size = 37;
  recipe.train.lr = 0.05;
  recipe.train.l2 = 1e-3;
  recipe.train.device = "cpu";
  recipe.data.balance = true;
  recipe.parallel.mode = ParallelMode::model;
  return recipe;
}

// What a training ends with.
struct TrainingEnd {
  LossTotals totals;
  TrainingState state;
  std::map<std::string, double> metrics;
};

inline EvaluationBatches validation_of(
    const std::shared_ptr<const PreparedData>& data) {
  return {BatchSource(data, {Split::validation}, normalization_of(*data, true)),
          data->classes(), at::kCPU};
}

inline TrainerOptions training_options(const Recipe& recipe) {
  return {.seed = 7, .epochs = recipe.train.epochs};
}

inline TrainingEnd train_alone(
    const Recipe& recipe, const std::shared_ptr<const PreparedData>& data) {
  at::set_num_threads(1);
  Trainer trainer(recipe, training_options(recipe), data);
  const std::atomic<bool> stop = false;
  const auto end = static_cast<int64_t>(recipe.train.epochs *
                                        static_cast<double>(trainer.count()));
  TrainingEnd result;
  result.totals = trainer.train_to(end, stop);
  result.state = state_of(trainer);
  for (NamedTensor& tensor : result.state.tensors) {
    tensor.values = tensor.values.clone();
  }
  result.metrics = predict_all(trainer.judged(),
                               BatchSource(data, {Split::validation},
                                           normalization_of(*data, true)),
                               data->classes(), at::kCPU, stop)
                       .metrics("val_");
  return result;
}

struct PipelineShape {
  std::vector<int> first_layer;
  int replicas = 1;
};

// `from`: state to start from; null: the beginning.
inline TrainingEnd train_in_pipeline(
    const Recipe& recipe, const std::shared_ptr<const PreparedData>& data,
    const PipelineShape& shape, const TrainingState* from = nullptr) {
  const auto stages = static_cast<int>(shape.first_layer.size());
  const auto all = make_local_groups(stages * shape.replicas);
  std::vector<std::vector<std::unique_ptr<Collective>>> same_stage;
  for (int stage = 0; stage < stages; ++stage) {
    same_stage.push_back(make_local_groups(shape.replicas));
  }
  TrainingEnd result;
  on_members(stages * shape.replicas, [&](int member) {
    const PipelinePlace place{
        {member % stages, stages}, member / stages, shape.replicas};
    PipelineTrainer trainer(recipe, training_options(recipe), data, place,
                            shape.first_layer);
    trainer.attach({.all = all[static_cast<size_t>(member)].get(),
                    .same_stage = same_stage[static_cast<size_t>(
                        member % stages)][static_cast<size_t>(member / stages)]
                                      .get()});
    if (from != nullptr) trainer.set_state(*from);
    const std::atomic<bool> stop = false;
    const auto end = static_cast<int64_t>(recipe.train.epochs *
                                          static_cast<double>(trainer.count()));
    const LossTotals totals = trainer.train_to(end, stop);
    EvaluationBatches batches = validation_of(data);
    const auto predictions = trainer.answer(batches, stop);
    const auto state = trainer.gather_state();
    if (member > 0) return;
    result = {totals, *state, predictions->metrics("val_")};
  });
  return result;
}

// |a - b| / |b| over one of the states' tensors.
inline double difference(const TrainingState& a, const TrainingState& b,
                         const std::string& name) {
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (a.tensors[i].name != name) continue;
    const at::Tensor& expected = b.tensors[i].values;
    const double size = expected.norm().item<double>();
    const double error = (a.tensors[i].values - expected).norm().item<double>();
    return size > 0 ? error / size : error;
  }
  return 1e9;
}

}  // namespace dtune
