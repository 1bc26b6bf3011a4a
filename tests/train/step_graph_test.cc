// Steps that are recorded and repeated, by the CPU's twin of CUDA graphs.
#include "dtune/train/step_graph.h"

#include <cstdlib>
#include <stdexcept>

#include "skip.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/data/prepared.h"
#include "dtune/nn/transfer.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/device.h"
#include "dtune/train/side_by_side.h"
#include "dtune/train/trainer.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr int64_t kStepSamples = 4;

StepInputs step_inputs(int64_t samples, double number) {
  return {.images = at::full({samples, 1}, number),
          .judging = at::full({1, 1}, 10 * number, at::kDouble),
          .masks = at::full({1, 1, 1}, 100 * number, at::kLong),
          .update = at::full({1, 1}, 1000 * number)};
}

at::Tensor sum_of_inputs(const StepInputs& inputs) {
  return (inputs.images.sum() + inputs.judging.sum() + inputs.masks.sum() +
          inputs.update.sum())
      .to(at::kDouble);
}

StepGraph graph_on_cpu() {
  return {at::kCPU, kStepSamples, make_recording(at::kCPU)};
}

struct GraphsOff {
  GraphsOff() { ::setenv("DTUNE_CUDA_GRAPHS", "off", 1); }
  ~GraphsOff() { ::unsetenv("DTUNE_CUDA_GRAPHS"); }
};

class FailingRecording final : public Recording {
 public:
  void record(const std::function<at::Tensor()>&) override {
    throw std::runtime_error("operation not permitted");
  }
  at::Tensor repeat() override { throw std::runtime_error("not recorded"); }
};

// A training with everything that differs from step to step; 120 images, the
// last batch of an epoch has 8.
struct StepShop {
  StepShop() {
    recipe.data.kind = DataKind::synthetic;
    recipe.data.classes = 3;
    recipe.data.samples = 150;
    recipe.data.height = 8;
    recipe.data.width = 8;
    recipe.data.validation = 0.2;
    recipe.data.augment = {.flip = true, .shift = 1, .mixup = 0.3};
    recipe.model.arch = "cnn-small";
    recipe.model.width = 4;
    recipe.model.dropout = 0.4;
    recipe.train.batch_size = 16;
    recipe.train.clip_norm = 0.5;
    recipe.train.ema = 0.9;
    recipe.train.schedule.kind = ScheduleKind::cosine;
    recipe.train.device = "cpu";
    data = std::make_shared<const PreparedData>(
        prepare_data(recipe.data, folder.path() / "cache"));
  }

  std::unique_ptr<Trainer> trainer(const at::Device& device = at::kCPU) const {
    return std::make_unique<Trainer>(
        recipe,
        TrainerOptions{
            .seed = 3, .epochs = 4, .device = device, .as_device = true},
        data);
  }

  TemporaryDirectory folder;
  Recipe recipe;
  std::shared_ptr<const PreparedData> data;
};

const std::atomic<bool> kNotStopped = false;

void check_same_bits(Trainer& a, Trainer& b) {
  CHECK(a.position() == b.position());
  const TrainingState one = state_of(a);
  const TrainingState other = state_of(b);
  CHECK(one.updates == other.updates);
  for (size_t i = 0; i < one.tensors.size(); ++i) {
    CAPTURE(one.tensors[i].name);
    CHECK(one.tensors[i].values.equal(other.tensors[i].values));
  }
}

}  // namespace

TEST_CASE("steps are recorded after the first ones, with inputs of their own") {
  StepGraph graph = graph_on_cpu();
  std::vector<at::Tensor> results;
  std::vector<const void*> read;  // where the images were
  const auto work = [&](const StepInputs& inputs) {
    read.push_back(inputs.images.data_ptr());
    return sum_of_inputs(inputs);
  };
  for (int step = 0; step < 8; ++step) {
    results.push_back(graph.run(step_inputs(kStepSamples, step), work));
    CHECK(graph.repeated() == std::max(0, step + 1 - StepGraph::kFirstOnCpu));
  }
  // Each result is kept, though repetitions write to one place.
  for (int step = 0; step < 8; ++step) {
    CHECK(results[static_cast<size_t>(step)].item<double>() ==
          step * (kStepSamples + 10 + 100 + 1000));
  }
  for (size_t step = StepGraph::kFirstOnCpu; step < 8; ++step) {
    CHECK(read[step] == read[StepGraph::kFirstOnCpu]);
  }
}

TEST_CASE("steps of another size are done as they come") {
  StepGraph graph = graph_on_cpu();
  for (int step = 0; step < 8; ++step) {
    const int64_t samples = step % 2 == 0 ? kStepSamples : kStepSamples - 1;
    const at::Tensor result = graph.run(step_inputs(samples, 1), sum_of_inputs);
    CHECK(result.item<double>() == static_cast<double>(samples + 1110));
  }
  CHECK(graph.repeated() == 1);  // the fourth of the usual size
}

TEST_CASE("the steps before a recording are of one thread") {
  StepGraph graph = graph_on_cpu();
  const auto steps = [&](int count) {
    for (; count > 0; --count)
      graph.run(step_inputs(kStepSamples, 1), sum_of_inputs);
  };
  steps(2);
  std::thread([&] { steps(StepGraph::kFirstOnCpu); }).join();
  CHECK(graph.repeated() == 0);
  steps(StepGraph::kFirstOnCpu + 1);
  CHECK(graph.repeated() == 1);
  std::thread([&] { steps(2); }).join();  // a recording is any thread's
  CHECK(graph.repeated() == 3);
}

TEST_CASE("where recording fails, steps go on unrecorded") {
  StepGraph graph(at::kCPU, kStepSamples, std::make_unique<FailingRecording>());
  for (int step = 0; step < 6; ++step) {
    CHECK(
        graph.run(step_inputs(kStepSamples, 1), sum_of_inputs).item<double>() ==
        1114);
  }
  CHECK(graph.repeated() == 0);
}

TEST_CASE("recorded work that sends numbers to the device is a defect") {
  StepGraph graph = graph_on_cpu();
  const auto sends = [](const StepInputs& inputs) {
    return send(host_tensor({}, at::kDouble, at::kCPU).fill_(1), at::kCPU) +
           sum_of_inputs(inputs);
  };
  for (int step = 0; step < StepGraph::kFirstOnCpu; ++step) {
    graph.run(step_inputs(kStepSamples, 1), sends);
  }
  CHECK_THROWS_WITH_AS(graph.run(step_inputs(kStepSamples, 1), sends),
                       doctest::Contains("NoTransfers"), Error);
  CHECK_FALSE(NoTransfers::any());
}

TEST_CASE("a training whose steps are repeated is the one whose are not") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    StepShop shop;
    shop.recipe.train.optimizer = kind;
    const auto repeats = shop.trainer();
    std::unique_ptr<Trainer> plain;
    {
      const GraphsOff off;
      plain = shop.trainer();
    }
    const LossTotals totals = repeats->train_to(240, kNotStopped);
    const LossTotals expected = plain->train_to(240, kNotStopped);
    CHECK(plain->step_graph()->repeated() == 0);
    CHECK(repeats->step_graph()->repeated() == 14 - StepGraph::kFirstOnCpu);
    CHECK(totals.loss == expected.loss);
    CHECK(totals.correct == expected.correct);
    check_same_bits(*repeats, *plain);
  }
}

TEST_CASE("a GPU repeats recorded steps, of trainings side by side as well") {
  const std::string problem = cuda_problem();
  if (!problem.empty()) return skip(problem);
  const at::Device gpu(at::kCUDA, 0);
  const StepShop shop;
  const auto cpu = shop.trainer();
  const int64_t end = 5 * cpu->count();  // 35 batches of the usual size
  const LossTotals expected = cpu->train_to(end, kNotStopped);
  SideBySide beside(memory_limit(gpu));
  std::vector<std::jthread> threads;
  // More than LibTorch has streams.
  for (int number = 0; number < 40; ++number) {
    threads.emplace_back([&] {
      const c10::StreamGuard on(own_stream(gpu).value());
      const auto trainer = shop.trainer(gpu);
      const LossTotals totals =
          beside.train_to(*trainer, end, kNotStopped, nullptr, nullptr);
      CHECK(trainer->step_graph()->repeated() == 35 - StepGraph::kFirst);
      CHECK(totals.loss == doctest::Approx(expected.loss).epsilon(5e-2));
    });
  }
}

TEST_CASE("a training goes on from a checkpoint into recorded steps") {
  const StepShop shop;
  const auto whole = shop.trainer();
  whole->train_to(240, kNotStopped);
  const auto first = shop.trainer();
  first->train_to(120, kNotStopped);
  const std::filesystem::path path = shop.folder.path() / "checkpoint";
  write_checkpoint(path, {"study", 1, 3}, 1, {.step = 1}, state_of(*first));
  // One that has recorded steps already, at other weights.
  const auto other = shop.trainer();
  other->train_to(96, kNotStopped);
  REQUIRE(other->step_graph()->repeated() > 0);
  load_checkpoint(path, {"study", 1, 3}, *other);
  CHECK(other->position() == 120);
  other->train_to(240, kNotStopped);
  check_same_bits(*other, *whole);
}
