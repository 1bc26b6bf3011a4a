#include "fixture.h"
#include <doctest/doctest.h>

#include "dtune/base/safetensors.h"

using namespace dtune;

namespace {

TrialAssignment final_of(const Workshop& shop, Recipe recipe) {
  TrialAssignment assignment = shop.assignment(recipe);
  assignment.kind = TrialKind::final;
  return assignment;
}

EvalRequest request_for(const TrialAssignment& assignment) {
  EvalRequest request;
  request.model = assignment.model_file;
  request.recipe = assignment.recipe;
  request.prepared_data = assignment.prepared_data;
  return request;
}

}  // namespace

TEST_CASE("evaluating a model file gives the final metrics to the last bit") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.model.arch = "resnet18";  // batch norm: buffers matter
  const TrialAssignment assignment = final_of(shop, recipe);
  const auto session = shop.start(assignment);
  const StepReport last = Workshop::run(*session, 4);
  const std::map<std::string, double> test = session->finish_final();
  CHECK(test.at("test_accuracy") > 0.8);
  CHECK(test.contains("test_loss"));
  CHECK(test.contains("test_auc"));
  CHECK(session->finish_final() == test);

  EvalRequest request = request_for(assignment);
  CHECK(load_engine().evaluate(request) == test);
  request.threads = 2;
  CHECK(load_engine().evaluate(request) == test);
  request.split = "validation";
  const auto validation = load_engine().evaluate(request);
  CHECK(validation.at("val_accuracy") == last.metrics.at("val_accuracy"));
  request.split = "exam";
  CHECK_THROWS_WITH_AS(load_engine().evaluate(request),
                       doctest::Contains("split 'exam' is unknown"), Error);
}

TEST_CASE("the threshold that validation asks for is kept with the model") {
  DataSpec data = small_data();
  data.classes = 2;
  data.difficulty = 0.8;  // so hard that one half is not the best
  Workshop shop(data);
  Recipe recipe = small_recipe();
  recipe.data = data;
  recipe.train.epochs = 1;
  recipe.final_training.threshold = ThresholdRule::accuracy;
  TrialAssignment assignment = final_of(shop, recipe);
  assignment.horizon = 1;
  const auto session = shop.start(assignment);
  const StepReport last = Workshop::run(*session, 1);
  const std::map<std::string, double> test = session->finish_final();
  const double threshold = test.at("test_threshold");
  CHECK(threshold != 0.5);
  const SafetensorsFile file(assignment.model_file);
  CHECK(std::stod(file.text("threshold")) == threshold);

  EvalRequest request = request_for(assignment);
  CHECK(load_engine().evaluate(request) == test);
  request.split = "validation";
  const auto validation = load_engine().evaluate(request);
  CHECK(validation.at("val_accuracy") > last.metrics.at("val_accuracy"));
  CHECK(validation.at("val_loss") == last.metrics.at("val_loss"));
}

TEST_CASE("a threshold for more than two classes is refused") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.final_training.threshold = ThresholdRule::balanced;
  CHECK_THROWS_WITH_AS(
      shop.start(shop.assignment(recipe)),
      "final.threshold: is for two classes, but the data have 4 (remove it)",
      Error);
}

TEST_CASE("the model has PyTorch's names and the recipe beside it") {
  Workshop shop;
  const TrialAssignment assignment = final_of(shop, small_recipe());
  const auto session = shop.start(assignment);
  Workshop::run(*session, 4);
  session->finish_final();
  CHECK(read_file(shop.path("model.yaml")) == "study: small\n");
  const SafetensorsFile file(assignment.model_file);
  CHECK(file.text("recipe") == "study: small\n");
  CHECK(file.text("input_shape") == "1x12x12");
  CHECK(file.text("trained_on") == "train");
  CHECK(file.text("metrics").find("test_accuracy") != std::string::npos);
  CHECK(file.text("metrics").find("val_accuracy") != std::string::npos);
  const auto& tensors = file.header().tensors;
  REQUIRE(tensors.contains("conv1.weight"));
  CHECK(tensors.at("conv1.weight").shape == std::vector<int64_t>{4, 1, 3, 3});
  CHECK(tensors.contains("conv1.bias"));
}

TEST_CASE("the last training may have the validation split too") {
  Workshop shop;
  Recipe recipe = small_recipe();
  recipe.final_training.data = FinalData::train_and_validation;
  recipe.final_training.epochs = 2;
  TrialAssignment assignment = final_of(shop, recipe);
  assignment.horizon = 2;
  const auto session = shop.start(assignment);
  const StepReport last = Workshop::run(*session, 2);
  CHECK_FALSE(last.metrics.contains("val_accuracy"));
  CHECK(last.metrics.contains("train_accuracy"));
  CHECK(session->finish_final().contains("test_accuracy"));
  const SafetensorsFile file(assignment.model_file);
  CHECK(file.text("trained_on") == "train+validation");
}

TEST_CASE("a final training resumes as any other") {
  Workshop shop;
  const TrialAssignment assignment = final_of(shop, small_recipe());
  const auto whole = shop.start(assignment);
  Workshop::run(*whole, 4);
  const auto expected = whole->finish_final();
  TrialAssignment parted = assignment;
  parted.checkpoint = shop.path("parted.safetensors");
  { Workshop::run(*shop.start(parted), 3); }
  parted.resume_step = 3;
  const auto resumed = shop.start(parted);
  Workshop::run(*resumed, 1);
  CHECK(resumed->finish_final() == expected);
}

TEST_CASE(
    "a final training goes on from the checkpoint of the trial it keeps") {
  Workshop shop;
  const TrialAssignment search = shop.assignment();
  const auto whole = shop.start(search);
  Workshop::run(*whole, 3);
  TrialAssignment last = search;
  last.kind = TrialKind::final;
  last.trial = search.trial + 40;  // the final training is a trial of its own
  last.resume_step = 3;
  CHECK(shop.start(last)->steps_done() == 3);
  last.seed = search.seed + 1;  // another training altogether
  CHECK_THROWS_WITH_AS(shop.start(last), doctest::Contains("belongs to trial"),
                       Error);
}

TEST_CASE(
    "a training on more data does not start from a checkpoint of the search") {
  Workshop shop;
  TrialAssignment assignment = shop.assignment();
  { Workshop::run(*shop.start(assignment), 2); }
  assignment.kind = TrialKind::final;
  assignment.resume_step = 2;
  CHECK_NOTHROW(shop.start(assignment));
  assignment.recipe.final_training.data = FinalData::train_and_validation;
  CHECK_THROWS_WITH_AS(shop.start(assignment),
                       doctest::Contains("trained on 400 samples, not 500"),
                       Error);
}

TEST_CASE("a model that does not belong to the recipe or the data is refused") {
  Workshop shop;
  const TrialAssignment assignment = final_of(shop, small_recipe());
  const auto session = shop.start(assignment);
  Workshop::run(*session, 4);
  session->finish_final();
  Engine& engine = load_engine();

  EvalRequest request = request_for(assignment);
  request.recipe.model.width = 8;
  CHECK_THROWS_WITH_AS(engine.evaluate(request),
                       doctest::Contains("of another architecture"), Error);
  request = request_for(assignment);
  DataSpec other = small_data();
  other.classes = 5;
  request.prepared_data = prepare_data(other, shop.path("other"));
  CHECK_THROWS_WITH_AS(engine.evaluate(request),
                       doctest::Contains("other classes"), Error);
  other = small_data();
  other.width = 14;
  request.prepared_data = prepare_data(other, shop.path("other"));
  CHECK_THROWS_WITH_AS(engine.evaluate(request),
                       doctest::Contains("images of 1x12x12"), Error);
  request = request_for(assignment);
  request.model = assignment.checkpoint;
  CHECK_THROWS_WITH_AS(engine.evaluate(request),
                       doctest::Contains("is of format 'checkpoint-1'"), Error);
  request.model = shop.path("model.yaml");
  CHECK_THROWS_WITH_AS(engine.evaluate(request),
                       doctest::Contains("not a valid safetensors file"),
                       Error);
}
