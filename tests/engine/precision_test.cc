// Training in bfloat16, on the CPU.
#include <cmath>

#include "fixture.h"
#include <doctest/doctest.h>

#include "dtune/base/safetensors.h"

using namespace dtune;  // NOLINT: a test

namespace {

Recipe in(Precision precision) {
  Recipe recipe = small_recipe();
  recipe.train.precision = precision;
  return recipe;
}

}  // namespace

TEST_CASE(
    "bfloat16 trains to about the loss of float32, with its own rounding") {
  Workshop shop;
  TrialAssignment exact = shop.assignment(in(Precision::fp32));
  exact.checkpoint = shop.path("exact.safetensors");
  TrialAssignment rounded = shop.assignment(in(Precision::bf16));
  const auto expected = shop.start(exact);
  const auto session = shop.start(rounded);
  // From 1.4 (of four classes, by chance) on; both trainings are the same but
  // for rounding, which a tenth of the way may hide.
  StepReport report;
  for (int step = 1; step <= 4; ++step) {
    const double full = Workshop::run(*expected, 1).metrics.at("train_loss");
    report = Workshop::run(*session, 1);
    const double loss = report.metrics.at("train_loss");
    CAPTURE(step);
    CHECK(loss != full);
    CHECK(std::abs(loss - full) < 0.14);
  }
  CHECK(report.metrics.at("train_loss") < 0.15);
  CHECK(report.metrics.at("val_accuracy") > 0.9);
}

TEST_CASE("float32 is what 'auto' is on the CPU, to the last bit") {
  Workshop shop;
  TrialAssignment a = shop.assignment(in(Precision::automatic));
  TrialAssignment b = shop.assignment(in(Precision::fp32));
  b.checkpoint = shop.path("b.safetensors");
  CHECK(Workshop::run(*shop.start(a), 1).metrics ==
        Workshop::run(*shop.start(b), 1).metrics);
}

TEST_CASE("checkpoints are float32, and belong to one precision") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment(in(Precision::bf16));
  const auto session = shop.start(assignment);
  const double first = Workshop::run(*session, 1).metrics.at("train_loss");
  const SafetensorsFile file(assignment.checkpoint);
  for (const auto& [name, tensor] : file.header().tensors) {
    CAPTURE(name);
    CHECK(tensor.dtype == "F32");
  }
  const double second = Workshop::run(*session, 1).metrics.at("train_loss");
  CHECK(second < first);

  // Paused after the first step and resumed: the same second step.
  TrialAssignment again = shop.assignment(in(Precision::bf16));
  again.checkpoint = shop.path("again.safetensors");
  Workshop::run(*shop.start(again), 1);
  again.resume_step = 1;
  CHECK(Workshop::run(*shop.start(again), 1).metrics.at("train_loss") ==
        second);

  again.recipe = in(Precision::fp32);
  again.resume_step = 2;
  CHECK_THROWS_WITH_AS(shop.start(again),
                       doctest::Contains("another precision"), Error);
}

TEST_CASE("tf32 on a CPU is refused") {
  Workshop shop;
  CHECK_THROWS_WITH_AS(
      shop.start(shop.assignment(in(Precision::tf32))),
      doctest::Contains("train.precision: 'tf32' is a GPU's, but this trial is "
                        "trained on the CPU"),
      Error);
}
