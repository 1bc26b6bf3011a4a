#include "dtune/pipeline/pipeline_trainer.h"

#include <string>

#include "pipeline_fixture.h"
#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

// Tolerance: sums are taken in another order, and 15 updates carry on.
constexpr double kRounding = 1e-4;

void check_equal_state(const TrainingState& state,
                       const TrainingState& expected) {
  CHECK(state.position == expected.position);
  CHECK(state.updates == expected.updates);
  CHECK(state.architecture == expected.architecture);
  CHECK(state.samples == expected.samples);
  REQUIRE(state.tensors.size() == expected.tensors.size());
  for (const NamedTensor& tensor : expected.tensors) {
    CAPTURE(tensor.name);
    CHECK(difference(state, expected, tensor.name) < kRounding);
  }
}

void check_equal(const TrainingEnd& pipeline, const TrainingEnd& alone) {
  check_equal_state(pipeline.state, alone.state);
  CHECK(pipeline.totals.samples == alone.totals.samples);
  CHECK(pipeline.totals.loss == doctest::Approx(alone.totals.loss));
  CHECK(pipeline.totals.weight == doctest::Approx(alone.totals.weight));
  CHECK(pipeline.metrics.at("val_loss") ==
        doctest::Approx(alone.metrics.at("val_loss")).epsilon(1e-3));
}

}  // namespace

TEST_CASE("stages together train as one process does") {
  const SmallImages images;
  for (const auto optimizer : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    Recipe recipe = pipeline_recipe();
    recipe.train.optimizer = optimizer;
    if (optimizer != OptimizerKind::sgd) recipe.train.lr = 0.003;
    const TrainingEnd alone = train_alone(recipe, images.data());
    for (const auto schedule :
         {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe}) {
      for (const bool recompute : {false, true}) {
        recipe.parallel.pipeline.schedule = schedule;
        recipe.parallel.pipeline.recompute = recompute;
        CAPTURE(std::string(to_string(optimizer)));
        CAPTURE(std::string(to_string(schedule)));
        CAPTURE(recompute);
        check_equal(
            train_in_pipeline(recipe, images.data(), {.first_layer = {0, 4}}),
            alone);
      }
    }
  }
}

TEST_CASE("any number of stages and micro-batches gives the same weights") {
  const SmallImages images;
  Recipe recipe = pipeline_recipe();
  recipe.train.clip_norm = 0.5;  // of the whole gradient
  recipe.data.augment.shift = 1;
  const TrainingEnd alone = train_alone(recipe, images.data());
  for (const int micros : {1, 5, 64}) {
    recipe.parallel.pipeline.micro_batches = micros;
    CAPTURE(micros);
    check_equal(train_in_pipeline(recipe, images.data(), {.first_layer = {0}}),
                alone);
    check_equal(train_in_pipeline(recipe, images.data(),
                                  {.first_layer = {0, 1, 3, 7, 9}}),
                alone);
  }
}

TEST_CASE("pipelines side by side train as one process does") {
  const SmallImages images;
  Recipe recipe = pipeline_recipe();
  recipe.train.ema = 0.9;
  recipe.data.augment.mixup = 0.3;
  recipe.data.augment.cutmix = 0.3;
  recipe.data.balance = true;
  recipe.parallel.mode = ParallelMode::hybrid;
  recipe.train.clip_norm = 0.5;
  const TrainingEnd alone = train_alone(recipe, images.data());
  check_equal(train_in_pipeline(recipe, images.data(),
                                {.first_layer = {0, 5}, .replicas = 2}),
              alone);
  // More pipelines than samples in an epoch's last batch.
  check_equal(train_in_pipeline(recipe, images.data(),
                                {.first_layer = {0, 7}, .replicas = 3}),
              alone);
}

TEST_CASE("a pipeline computes in the recipe's precision") {
  const SmallImages images;
  Recipe recipe = pipeline_recipe();
  recipe.train.epochs = 1;
  recipe.parallel.pipeline.micro_batches = 1;  // rounded as whole batches are
  const PipelineShape shape{.first_layer = {0, 4}};
  const TrainingEnd exact = train_in_pipeline(recipe, images.data(), shape);
  recipe.train.precision = Precision::bf16;
  const TrainingEnd alone = train_alone(recipe, images.data());
  const TrainingEnd rounded = train_in_pipeline(recipe, images.data(), shape);
  CHECK(difference(rounded.state, alone.state, "weights") < kRounding);
  CHECK(difference(rounded.state, exact.state, "weights") > 3 * kRounding);
}

TEST_CASE("what one pipeline left another goes on with") {
  const SmallImages images;
  Recipe recipe = pipeline_recipe();
  const TrainingEnd alone = train_alone(recipe, images.data());
  Recipe half = recipe;
  half.train.epochs = 1;
  const TrainingEnd first =
      train_in_pipeline(half, images.data(), {.first_layer = {0, 2, 8}});
  const TrainingEnd rest = train_in_pipeline(
      recipe, images.data(), {.first_layer = {0, 4}}, &first.state);
  CHECK(rest.totals.samples == 300);
  check_equal_state(rest.state, alone.state);
}

TEST_CASE("batch norm sees micro-batches and is moved once by each") {
  const SmallImages images;
  Recipe recipe = pipeline_recipe();
  recipe.model.layers[5] = layer(LayerKind::batch_norm, "norm2");
  recipe.parallel.pipeline.micro_batches = 1;
  const PipelineShape shape{.first_layer = {0, 4}};
  // One micro-batch is the batch.
  const TrainingEnd alone = train_alone(recipe, images.data());
  check_equal(train_in_pipeline(recipe, images.data(), shape), alone);

  // Recomputing changes nothing.
  recipe.parallel.pipeline.micro_batches = 4;
  recipe.parallel.pipeline.schedule = PipelineSchedule::gpipe;
  const TrainingEnd kept = train_in_pipeline(recipe, images.data(), shape);
  recipe.parallel.pipeline.recompute = true;
  const TrainingEnd again = train_in_pipeline(recipe, images.data(), shape);
  CHECK(difference(again.state, kept.state, "buffers") < 1e-6);
  CHECK(difference(again.state, kept.state, "weights") < 1e-6);
}

TEST_CASE("blocks and their running statistics find their place again") {
  const SmallImages images(16);
  Recipe recipe = pipeline_recipe();
  recipe.model = ModelSpec{};
  recipe.model.arch = "resnet18";
  recipe.model.width = 4;
  recipe.train.epochs = 1;
  recipe.parallel.pipeline.micro_batches = 1;
  const TrainingEnd alone = train_alone(recipe, images.data());
  check_equal(
      train_in_pipeline(recipe, images.data(), {.first_layer = {0, 4, 7}}),
      alone);
}

TEST_CASE("all stages stop at the batch whose loss is not a number") {
  const SmallImages images;
  Recipe recipe = pipeline_recipe();
  recipe.train.lr = 1e30;
  const auto all = make_local_groups(3);
  std::vector<std::string> texts(3);
  on_members(3, [&](int member) {
    PipelineTrainer trainer(recipe, training_options(recipe), images.data(),
                            {{member, 3}}, {0, 3, 8});
    trainer.attach({.all = all[static_cast<size_t>(member)].get()});
    const std::atomic<bool> stop = false;
    try {
      trainer.train_to(450, stop);
    } catch (const TrialFailure& failure) {
      CHECK(failure.reason() == Reason::diverged);
      texts[static_cast<size_t>(member)] = failure.what();
    }
  });
  CHECK(texts[0].starts_with("diverged: the training loss became"));
  CHECK(texts[1] == texts[0]);
  CHECK(texts[2] == texts[0]);
}

TEST_CASE("a stage that leaves is named with the message that did not come") {
  const SmallImages images;
  const Recipe recipe = pipeline_recipe();
  auto all = make_local_groups(2);
  on_members(2, [&](int member) {
    if (member == 1) {
      all[1].reset();
      return;
    }
    PipelineTrainer trainer(recipe, training_options(recipe), images.data(),
                            {{0, 2}}, {0, 4});
    trainer.attach({.all = all[0].get(), .patience = std::chrono::seconds(30)});
    const std::atomic<bool> stop = false;
    try {
      trainer.train_to(150, stop);
      FAIL("it must be noticed");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::comm);
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.starts_with("pipeline: stage 1 of 2 (member 0)"));
      CHECK(text.find("member 1 (stage 2)") != std::string::npos);
    }
  });
}
