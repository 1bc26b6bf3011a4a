// What other devices do with images, losses and updates, on the CPU, against
// what the CPU does.
#include "dtune/train/device_images.h"

#include <atomic>

#include "skip.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/device.h"
#include "dtune/train/trainer.h"

using namespace dtune;  // NOLINT: a test

namespace {

using Pixels = DeviceImages::Pixels;

Recipe small_recipe(int channels) {
  Recipe recipe;
  recipe.data.kind = DataKind::synthetic;
  recipe.data.classes = 3;
  recipe.data.samples = 100;
  recipe.data.validation = 0.2;
  recipe.data.height = 8;
  recipe.data.width = 7;
  recipe.data.channels = channels;
  recipe.model.arch = "cnn-small";
  recipe.model.width = 4;
  recipe.train.batch_size = 16;
  return recipe;
}

struct DeviceShop {
  explicit DeviceShop(int channels)
      : recipe(small_recipe(channels)),
        data(std::make_shared<const PreparedData>(
            prepare_data(recipe.data, folder.path()))) {}

  BatchSource source(const std::vector<Split>& splits) const {
    return {data, splits, normalization_of(*data, true)};
  }

  TemporaryDirectory folder;
  Recipe recipe;
  std::shared_ptr<const PreparedData> data;
};

// Of samples 0 to 11 and the last one.
void check_images(const BatchSource& source, const Augmentation& augment,
                  Pixels pixels, const at::Device& device = at::kCPU) {
  std::vector<uint32_t> samples = {static_cast<uint32_t>(source.count() - 1)};
  for (uint32_t i = 0; i < 12; ++i) samples.push_back(i);
  DeviceImages images(source, device, pixels);
  CHECK(images.resident() == (pixels == Pixels::resident));
  const Shape& shape = source.image_shape();
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const AugmentKey key{augment, 5, epoch};
    at::Tensor expected = at::empty(
        {int64_t(samples.size()), shape.height, shape.width, shape.channels});
    std::vector<int32_t> labels(samples.size());
    source.gather(samples, key,
                  {expected.data_ptr<float>(), size_t(expected.numel())},
                  labels);
    std::vector<PlannedImage> plan;
    source.append_plan(samples, key, plan);
    if (epoch == 1) images.prefetch(plan);
    if (epoch == 2) images.prefetch(std::span(plan).first(2));
    const at::Tensor made = images.make(plan).to(at::kCPU);
    CHECK(made.is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(at::allclose(made, expected.permute({0, 3, 1, 2}), 1e-6, 1e-6));
  }
}

}  // namespace

TEST_CASE("a device makes the images that the CPU makes") {
  const std::vector<Augmentation> kinds = {
      {},
      {.flip = true, .shift = 2},
      {.crop = 3},
      {.flip = true, .shift = 1, .crop = 20},
      {.cutout = 4},
      {.jitter = 0.5},
      {.mixup = 0.4},
      {.shift = 1, .cutmix = 1},
      {.flip = true,
       .shift = 1,
       .crop = 2,
       .cutout = 3,
       .jitter = 0.3,
       .mixup = 1,
       .cutmix = 1}};
  for (const int channels : {1, 3}) {
    const DeviceShop shop(channels);
    for (const Pixels pixels : {Pixels::resident, Pixels::streamed}) {
      for (const Augmentation& augment : kinds) {
        check_images(shop.source({Split::train}), augment, pixels);
      }
      check_images(shop.source({Split::validation}), {}, pixels);
      check_images(shop.source({Split::train, Split::validation}),
                   {.flip = true, .mixup = 1}, pixels);
      BatchSource some = shop.source({Split::train, Split::validation});
      std::vector<uint32_t> kept(20);
      for (uint32_t i = 0; i < kept.size(); ++i) kept[i] = 3 + 5 * i;
      some.keep(std::move(kept));
      check_images(some, {.flip = true, .mixup = 1}, pixels);
    }
  }
}

TEST_CASE("a GPU makes the images that the CPU makes, and trains the same") {
  const std::string problem = cuda_problem();
  if (!problem.empty()) return skip(problem);
  const at::Device gpu(at::kCUDA, 0);
  const DeviceShop shop(3);
  for (const Pixels pixels : {Pixels::resident, Pixels::streamed}) {
    check_images(shop.source({Split::train}),
                 {.flip = true, .shift = 1, .crop = 2, .cutout = 3, .mixup = 1},
                 pixels, gpu);
  }
  const std::atomic<bool> never = false;
  Trainer cpu(shop.recipe, {.seed = 3}, shop.data);
  Trainer device(shop.recipe, {.seed = 3, .device = gpu}, shop.data);
  const LossTotals expected = cpu.train_to(cpu.count(), never);
  const LossTotals totals = device.train_to(cpu.count(), never);
  CHECK(totals.loss == doctest::Approx(expected.loss).epsilon(1e-2));
}

TEST_CASE("trials of one data set have one copy of it on a device") {
  const DeviceShop shop(1);
  const DeviceImages a(shop.source({Split::train}), at::kCPU);
  const DeviceImages b(shop.source({Split::train}), at::kCPU);
  CHECK(a.resident());
  CHECK(a.shares_pixels(b));
  const DeviceImages other(shop.source({Split::validation}), at::kCPU);
  CHECK(a.shares_pixels(other));
  const DeviceImages streamed(shop.source({Split::train}), at::kCPU,
                              Pixels::streamed);
  CHECK_FALSE(a.shares_pixels(streamed));
  const DeviceImages test(shop.source({Split::test}), at::kCPU);
  CHECK_FALSE(test.resident());  // it is judged once
}

TEST_CASE("a training as on a device is that of the CPU") {
  DeviceShop shop(3);
  shop.recipe.data.augment = {.flip = true, .shift = 1, .mixup = 0.3};
  shop.recipe.train.clip_norm = 0.5;
  shop.recipe.train.ema = 0.9;
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    shop.recipe.train.optimizer = kind;
    const TrainerOptions here{.seed = 3, .epochs = 2};
    const TrainerOptions there{.seed = 3, .epochs = 2, .as_device = true};
    Trainer cpu(shop.recipe, here, shop.data);
    Trainer device(shop.recipe, there, shop.data);
    const std::atomic<bool> never = false;
    int64_t batches = 0;
    const LossTotals expected = cpu.train_to(2 * cpu.count(), never);
    const LossTotals totals =
        device.train_to(2 * cpu.count(), never, [&](int64_t) { ++batches; });
    CHECK(batches == 2 * ((cpu.count() + 15) / 16));
    CHECK(totals.samples == expected.samples);
    CHECK(totals.weight == doctest::Approx(expected.weight));
    CHECK(totals.loss == doctest::Approx(expected.loss).epsilon(1e-4));
    const TrainingState a = state_of(device);
    const TrainingState b = state_of(cpu);
    REQUIRE(a.tensors.size() == b.tensors.size());
    for (size_t i = 0; i < a.tensors.size(); ++i) {
      CAPTURE(a.tensors[i].name);
      CHECK(at::allclose(a.tensors[i].values, b.tensors[i].values, 1e-2, 1e-3));
    }
  }
}

TEST_CASE("a training that diverges on a device says in which batch") {
  DeviceShop shop(1);
  shop.recipe.train.lr = 1e30;
  Trainer trainer(shop.recipe, {.seed = 3, .as_device = true}, shop.data);
  const std::atomic<bool> never = false;
  CHECK_THROWS_WITH_AS(trainer.train_to(trainer.count(), never),
                       doctest::Contains("(batch 2)"), TrialFailure);
}
