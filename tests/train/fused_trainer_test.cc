// Trials trained as one program against the same trials one by one.
#include "dtune/train/fused_trainer.h"

#include <cmath>
#include <latch>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/checkpoint.h"
#include "dtune/train/session.h"

using namespace dtune;  // NOLINT: a test

namespace {

// The weights of two epochs in another order of sums; and of losses.
constexpr double kWeights = 2e-3;
constexpr double kLoss = 1e-3;

// 120 training images of 8 x 8, in batches of 16: the last of an epoch has 8.
Recipe tiny_recipe() {
  Recipe recipe;
  recipe.data.kind = DataKind::synthetic;
  recipe.data.classes = 3;
  recipe.data.samples = 150;
  recipe.data.height = 8;
  recipe.data.width = 8;
  recipe.data.difficulty = 0.2;
  recipe.data.validation = 0.2;
  recipe.model.arch = "cnn-small";
  recipe.model.width = 4;
  recipe.train.epochs = 4;
  recipe.train.batch_size = 16;
  recipe.train.device = "cpu";
  return recipe;
}

// Trials that differ in all that a fused trial may have for itself.
std::vector<Recipe> various(OptimizerKind optimizer) {
  std::vector<Recipe> recipes(3, tiny_recipe());
  for (size_t k = 0; k < recipes.size(); ++k) {
    const auto number = static_cast<double>(k);
    TrainSpec& train = recipes[k].train;
    train.optimizer = optimizer;
    train.lr = 0.01 * (1 + number);
    train.l2 = 1e-3 * number;
    train.momentum = 0.9 - 0.2 * number;
    train.nesterov = k == 1;
    train.clip_norm = k == 2 ? 0.5 : 0;
    train.ema = 0.9;
    train.label_smoothing = k == 1 ? 0.1 : 0;
    train.schedule.kind = ScheduleKind::cosine;
    recipes[k].model.dropout = 0.2 * number;
    recipes[k].data.augment.flip = k == 2;
  }
  return recipes;
}

struct Shop {
  TemporaryDirectory folder;
  std::shared_ptr<const PreparedData> data =
      std::make_shared<const PreparedData>(
          prepare_data(tiny_recipe().data, folder.path() / "cache"));

  std::unique_ptr<Trainer> trainer(const Recipe& recipe, uint64_t seed,
                                   bool as_device = false) const {
    return std::make_unique<Trainer>(
        recipe,
        TrainerOptions{.seed = seed, .epochs = 4, .as_device = as_device},
        data);
  }
  std::vector<std::unique_ptr<Trainer>> trainers(
      const std::vector<Recipe>& recipes, bool as_device = false) const {
    std::vector<std::unique_ptr<Trainer>> made;
    for (const Recipe& recipe : recipes) {
      made.push_back(trainer(recipe, 7 + made.size(), as_device));
    }
    return made;
  }
};

using Trainers = std::vector<std::unique_ptr<Trainer>>;

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

void check_equal(Trainer& fused, Trainer& single) {
  CHECK(fused.position() == single.position());
  const TrainingState a = state_of(fused);
  const TrainingState b = state_of(single);
  CHECK(a.updates == b.updates);
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    CAPTURE(a.tensors[i].name);
    if (b.tensors[i].values.numel() == 0) continue;
    CHECK(distance(a.tensors[i].values, b.tensors[i].values) < kWeights);
  }
}

// Any optimizer, loss, schedule, augmentation and precision.
Recipe random_recipe(Rng& rng) {
  const auto chance = [&](double value) {
    return rng.uniform() < 0.5 ? 0 : value * rng.uniform();
  };
  Recipe recipe = tiny_recipe();
  recipe.data.balance = rng.below(2) == 1;
  Augmentation& augment = recipe.data.augment;
  augment.flip = rng.below(2) == 1;
  augment.shift = static_cast<int>(rng.below(3));
  augment.jitter = chance(0.5);
  augment.mixup = chance(1);
  augment.cutmix = chance(1);
  recipe.model.dropout = chance(0.5);
  TrainSpec& train = recipe.train;
  train.batch_size = 5 + static_cast<int>(rng.below(30));
  train.optimizer = static_cast<OptimizerKind>(rng.below(3));
  train.lr = train.optimizer == OptimizerKind::sgd ? 0.02 : 0.002;
  train.l2 = chance(0.01);
  train.l2_on_all = rng.below(2) == 1;
  train.nesterov = rng.below(2) == 1;
  train.clip_norm = chance(2);
  train.ema = chance(0.99);
  train.schedule.kind = static_cast<ScheduleKind>(rng.below(3));
  train.schedule.warmup = chance(1);
  train.loss = static_cast<LossKind>(rng.below(2));
  train.label_smoothing = chance(0.2);
  train.focal_gamma = chance(3);
  if (rng.below(4) == 0) train.precision = Precision::bf16;
  return recipe;
}

const std::atomic<bool> kNever = false;

// All at the same time, to `end`.
std::vector<LossTotals> train_fused(FusedTrainer& fused, Trainers& trainers,
                                    int64_t end) {
  std::vector<LossTotals> totals(trainers.size());
  std::vector<std::jthread> threads;
  for (size_t k = 0; k < trainers.size(); ++k) {
    threads.emplace_back(
        [&, k] { totals[k] = fused.train_to(*trainers[k], end, kNever); });
  }
  threads.clear();
  return totals;
}

// Trained together and one by one, so many samples each.
void check_equal_after(int64_t samples, Trainers& together, Trainers& alone) {
  FusedTrainer fused;
  const std::vector<LossTotals> totals = train_fused(fused, together, samples);
  for (size_t k = 0; k < alone.size(); ++k) {
    CAPTURE(k);
    const LossTotals expected = alone[k]->train_to(samples, kNever);
    CHECK(totals[k].samples == expected.samples);
    CHECK(totals[k].loss == doctest::Approx(expected.loss).epsilon(kLoss));
    check_equal(*together[k], *alone[k]);
  }
}

}  // namespace

TEST_CASE("fused trials are each what they are alone") {
  const Shop shop;
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    CAPTURE(static_cast<int>(kind));
    Trainers together = shop.trainers(various(kind));
    Trainers alone = shop.trainers(various(kind));
    check_equal_after(240, together, alone);
  }
}

TEST_CASE("a device trains what the CPU does, whatever the recipe") {
  const Shop shop;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Recipe recipe = random_recipe(rng);
    const auto device = shop.trainer(recipe, seed, /*as_device=*/true);
    const auto cpu = shop.trainer(recipe, seed);
    const LossTotals totals = device->train_to(180, kNever);
    const LossTotals expected = cpu->train_to(180, kNever);
    CHECK(totals.samples == expected.samples);
    CHECK(std::abs(totals.correct - expected.correct) <= 1);  // a tie
    CHECK(totals.weight == doctest::Approx(expected.weight));
    CHECK(totals.loss == doctest::Approx(expected.loss).epsilon(kLoss));
    check_equal(*device, *cpu);
  }
}

TEST_CASE("trials side by side are to the last bit what they are alone") {
  const Shop shop;
  const std::vector<Recipe> recipes = various(OptimizerKind::sgd);
  Trainers together = shop.trainers(recipes, /*as_device=*/true);
  Trainers alone = shop.trainers(recipes, /*as_device=*/true);
  const uint64_t one = together[0]->working_bytes();
  CHECK(one > together[0]->resident_bytes());
  for (const uint64_t memory : {one / 2, 10 * one}) {  // by turns, or at once
    CAPTURE(memory);
    SideBySide beside(memory);
    const int64_t end = together[0]->position() + 640;
    std::atomic<int> most = 0;
    std::vector<std::jthread> threads;
    for (const auto& trainer : together) {
      threads.emplace_back([&, &trainer = *trainer] {
        std::atomic<int> now = 0;
        const auto look = [&](int64_t) {
          most = std::max(most.load(), now.load());
        };
        beside.train_to(trainer, end, kNever, look, &now);
      });
    }
    threads.clear();
    CHECK(most >= 1);
    if (memory < one) CHECK(most == 1);
    for (size_t k = 0; k < alone.size(); ++k) {
      CAPTURE(k);
      alone[k]->train_to(end, kNever);
      CHECK(together[k]->network().weights().equal(
          alone[k]->network().weights()));
    }
  }
}

TEST_CASE("trials of another shape train beside fused ones") {
  const Shop shop;
  std::vector<Recipe> recipes = various(OptimizerKind::sgd);
  recipes[1].model.width = 5;
  recipes[2].train.batch_size = 24;
  Trainers together = shop.trainers(recipes);
  Trainers alone = shop.trainers(recipes);
  FusedTrainer fused;
  train_fused(fused, together, 120);
  for (size_t k = 0; k < alone.size(); ++k) {
    CAPTURE(k);
    alone[k]->train_to(120, kNever);
    // No other has its shape: the same to the last bit.
    CHECK(
        together[k]->network().weights().equal(alone[k]->network().weights()));
  }
}

TEST_CASE("trials that are too wide to be one take turns") {
  const Shop shop;
  LayerSpec wide;
  wide.kind = LayerKind::linear;
  wide.channels = 40'000;  // of 65,536 at the most
  std::vector<Recipe> recipes(2, tiny_recipe());
  for (Recipe& recipe : recipes) recipe.model.layers = {wide};
  Trainers together = shop.trainers(recipes);
  Trainers alone = shop.trainers(recipes);
  FusedTrainer fused;
  train_fused(fused, together, 48);
  for (size_t k = 0; k < alone.size(); ++k) {
    CAPTURE(k);
    alone[k]->train_to(48, kNever);
    CHECK(
        together[k]->network().weights().equal(alone[k]->network().weights()));
  }
}

TEST_CASE("a trial that stops, comes late or diverges leaves the others") {
  const Shop shop;
  std::vector<Recipe> recipes(4, tiny_recipe());
  recipes[1].train.lr = 1e30;  // diverges
  Trainers together = shop.trainers(recipes);
  FusedTrainer fused;
  std::atomic<bool> stop = false;
  std::atomic<int> most = 0;
  std::atomic<int> now = 1;
  std::latch started(3);
  // Goes on until others have come, at the least for two epochs.
  std::jthread first([&] {
    const auto look = [&](int64_t position) {
      if (position == 16) started.wait();
      most = std::max(most.load(), now.load());
      if (position >= 240 && most >= 2) stop = true;
    };
    CHECK_THROWS_AS(fused.train_to(*together[0], 1 << 20, stop, look, &now),
                    StepStopped);
  });
  std::jthread second([&] {
    started.count_down();
    try {
      fused.train_to(*together[1], 480, kNever);
      FAIL_CHECK("it does not diverge");
    } catch (const TrialFailure& failure) {
      CHECK(failure.reason() == Reason::diverged);
    }
  });
  std::jthread third([&] {
    started.count_down();
    fused.train_to(*together[2], 240, kNever);
  });
  std::jthread fourth([&] {
    started.count_down();
    fused.train_to(*together[3], 480, kNever);
  });
  first.join();
  second.join();
  third.join();
  fourth.join();
  CHECK(together[0]->position() >= 240);
  Trainers alone = shop.trainers(recipes);
  for (const size_t k : {size_t{0}, size_t{2}, size_t{3}}) {
    CAPTURE(k);
    alone[k]->train_to(together[k]->position(), kNever);
    check_equal(*together[k], *alone[k]);
  }
}

TEST_CASE("no trial ends without its weights where the others' batch fails") {
  const Shop shop;
  Trainers together = shop.trainers(std::vector<Recipe>(2, tiny_recipe()));
  FusedTrainer fused;
  std::latch started(1);
  // Fails after the batch that is the only one of the second.
  std::jthread first([&] {
    const auto look = [&](int64_t position) {
      if (position == 16) started.count_down();
      if (together[1]->position() == 16) {
        throw std::runtime_error("a device fails");
      }
    };
    CHECK_THROWS_WITH(fused.train_to(*together[0], 1 << 20, kNever, look),
                      "a device fails");
  });
  started.wait();
  CHECK_THROWS_WITH(fused.train_to(*together[1], 16, kNever), "a device fails");
}

TEST_CASE("a device is not waited for after each batch of a trial") {
  const Shop shop;
  Recipe recipe = tiny_recipe();
  recipe.train.lr = 1e30;  // found where the losses are read
  const auto trainer = shop.trainer(recipe, 7, /*as_device=*/true);
  SideBySide beside(UINT64_MAX);
  size_t batches = 0;
  const auto count = [&](int64_t) { ++batches; };
  CHECK_THROWS_AS(beside.train_to(*trainer, 1 << 20, kNever, count, nullptr),
                  TrialFailure);
  CHECK(batches == Trainer::kAhead);
}

TEST_CASE("checkpoints of fused and single trials are interchangeable") {
  const Shop shop;
  const auto assignment = [&](int k, const char* name) {
    TrialAssignment made;
    made.study_id = "study-1";
    made.trial = k + 1;
    made.attempt = 1;
    made.recipe = various(OptimizerKind::adam)[static_cast<size_t>(k)];
    made.seed = static_cast<uint64_t>(40 + k);
    made.horizon = 4;
    made.checkpoint = shop.folder.path() / fmt::format("{}-{}", name, k);
    return made;
  };
  FusedTrainer fused;
  // Two steps of three trials, from `step` on; metrics of the last.
  const auto train = [&](const char* name, int step, FusedTrainer* by) {
    std::vector<std::map<std::string, double>> metrics(3);
    const auto run = [&](int k) {
      TrialAssignment own = assignment(k, name);
      own.resume_step = step;
      const auto session = make_cnn_session(own, shop.data, by);
      session->run_step(kNever);
      metrics[static_cast<size_t>(k)] = session->run_step(kNever).metrics;
    };
    std::vector<std::jthread> threads;
    for (int k = 0; k < 3; ++k) {
      if (by == nullptr) {
        run(k);
      } else {
        threads.emplace_back([&, k] { run(k); });
      }
    }
    threads.clear();
    return metrics;
  };
  train("fused-first", 0, &fused);
  train("single-first", 0, nullptr);
  train("single", 0, nullptr);
  const auto expected = train("single", 2, nullptr);
  for (const auto& metrics :
       {train("fused-first", 2, nullptr), train("single-first", 2, &fused)}) {
    for (size_t k = 0; k < 3; ++k) {
      CAPTURE(k);
      CHECK(metrics[k].at("val_loss") ==
            doctest::Approx(expected[k].at("val_loss")).epsilon(0.01));
      CHECK(std::abs(metrics[k].at("val_accuracy") -
                     expected[k].at("val_accuracy")) < 0.1);
    }
  }
}
