#include "dtune/config/recipe_file.h"

#include "config/recipe_fixture.h"

#include "dtune/base/file.h"

namespace dtune {
namespace {

TEST_CASE("the example of the design reads as it is written") {
  const Recipe recipe = parse(R"(
study: fashion
data:   { kind: fashion-mnist }
model:  { arch: cnn-small }
train:  { epochs: 12, batch_size: 128 }
space:
  lr:      { log: [1e-4, 0.5] }
  l2:      { log: [1e-6, 1e-2] }
  dropout: { linear: [0.0, 0.6] }
budget: { trials: 40, time: 10m }
expect: { val_accuracy: ">= 0.90" }
)")
                            .recipe();
  CHECK(recipe.study == "fashion");
  CHECK(recipe.train.epochs == 12);
  CHECK(recipe.budget.trials == 40);
  CHECK(recipe.budget.time == std::chrono::minutes(10));
  REQUIRE(recipe.space.dimensions() == 3);
  const Parameter& lr = recipe.space.parameters()[0];
  CHECK(lr.key == "train.lr");
  CHECK(lr.log);
  CHECK(lr.low == 1e-4);
  CHECK(recipe.space.parameters()[2].key == "model.dropout");
  CHECK_FALSE(recipe.space.parameters()[2].log);
  REQUIRE(recipe.expect.size() == 1);
  CHECK(recipe.expect[0].metric == "val_accuracy");
  CHECK(recipe.expect[0].comparison == Comparison::greater_equal);
  CHECK(recipe.expect[0].bound == 0.9);
  CHECK(recipe.expect[0].where == "r.yaml:11:25");
}

TEST_CASE("every line may be left out") {
  const Recipe recipe = parse("study: x").recipe();
  CHECK(recipe.model.arch == "cnn-small");
  CHECK(recipe.space.dimensions() == 3);
  CHECK(recipe.budget.trials == 40);
  CHECK(recipe.objective.metric == "val_accuracy");
  CHECK(recipe.directory == "/recipes");
}

TEST_CASE("a study without a name is called like its file") {
  CHECK(parse("seed: 1").recipe().study == "r");
  const auto file = RecipeFile::parse("seed: 1", "/a b/My study 2.yaml", "/");
  CHECK(file.recipe().study == "My-study-2");
}

TEST_CASE("short forms mean what their long forms mean") {
  const std::string brief = R"(
data: fashion-mnist
model: resnet18
train: { schedule: cosine, step: epoch }
objective: val_loss
sampler: random
scheduler: fifo
fidelity: epochs
final: false
slots: 2
)";
  const std::string full = R"(
data: { kind: fashion-mnist }
model: { arch: resnet18 }
train: { schedule: { kind: cosine }, step: { samples: 0 } }
objective: { metric: val_loss, goal: minimize }
sampler: { kind: random }
scheduler: { kind: fifo }
fidelity: { kind: epochs }
final: { enabled: false }
resources: { slots: 2 }
)";
  CHECK(parse(brief).resolved_yaml() == parse(full).resolved_yaml());
}

TEST_CASE("a sampler brings the scheduler that goes best with it") {
  const auto scheduler = [](const std::string& yaml) {
    return parse(yaml).recipe().scheduler.kind;
  };
  CHECK(scheduler("seed: 1") == "freeze-thaw");
  CHECK(scheduler("sampler: plain-gp") == "freeze-thaw");
  CHECK(scheduler("sampler: random") == "asha");
  CHECK(scheduler("sampler: { kind: tpe, startup: 3 }") == "median");
  CHECK(scheduler("sampler: gp") == "fifo");
  CHECK(scheduler("sampler: gp\nscheduler: asha") == "asha");
}

TEST_CASE("augmentation is a list, a section or a word") {
  const auto augment = [](const std::string& value) {
    return parse("data: { augment: " + value + " }").recipe().data.augment;
  };
  CHECK(augment("[flip, shift: 2]").flip);
  CHECK(augment("[flip, shift: 2]").shift == 2);
  CHECK(augment("{ flip: true, shift: 3 }").shift == 3);
  CHECK(augment("flip").flip);
  CHECK_FALSE(augment("none").flip);
}

TEST_CASE("the goal of a loss is inferred, that of a score is to be large") {
  CHECK(parse("objective: val_loss").recipe().objective.goal == Goal::minimize);
  CHECK(parse("objective: val_auc").recipe().objective.goal == Goal::maximize);
  CHECK(parse("command: x\nobjective: my_error").recipe().objective.goal ==
        Goal::minimize);
  for (const char* metric :
       {"RMSE", "val_mae", "test/error_rate", "fit_time"}) {
    CAPTURE(metric);
    CHECK(parse("command: x\nobjective: " + std::string(metric))
              .recipe()
              .objective.goal == Goal::minimize);
  }
  CHECK(parse("command: x\nobjective: f1").recipe().objective.goal ==
        Goal::maximize);
  CHECK(parse("command: x\nobjective: {metric: my_loss, goal: maximize}")
            .recipe()
            .objective.goal == Goal::maximize);
}

TEST_CASE("durations and sizes have units") {
  const Recipe recipe = parse(R"(
limits: { heartbeat: 0.5, lease: 1m30s, trial_time: 2h }
resources: { memory: 4g }
)")
                            .recipe();
  CHECK(recipe.limits.heartbeat == std::chrono::milliseconds(500));
  CHECK(recipe.limits.lease == std::chrono::seconds(90));
  CHECK(recipe.limits.trial_time == std::chrono::hours(2));
  CHECK(recipe.resources.memory_mb == 4096);
}

TEST_CASE("relative paths start at the recipe's folder") {
  const auto path = [](const std::string& written) {
    return parse("data: { kind: npz, path: " + written + " }")
        .recipe()
        .data.path;
  };
  CHECK(path("a/b.npz") == "/recipes/a/b.npz");
  CHECK(path("../b.npz") == "/b.npz");
  CHECK(path("/data/b.npz") == "/data/b.npz");
}

TEST_CASE("a command is split as a shell does") {
  const auto argv = [](const std::string& command) {
    return parse("command: " + command).recipe().command->argv;
  };
  using Words = std::vector<std::string>;
  CHECK(argv("python train.py --lr {lr}\nspace: { lr: { log: [1, 2] } }") ==
        Words{"python", "train.py", "--lr", "{lr}"});
  CHECK(argv("sh -c 'echo \"a b\"  c'") ==
        Words{"sh", "-c", "echo \"a b\"  c"});
  CHECK(argv("a\\ b \"\" c") == Words{"a b", "", "c"});
  CHECK(argv("[python, -c, 'print(1)']") == Words{"python", "-c", "print(1)"});
  CHECK(argv("{ run: a b, steps: 3 }") == Words{"a", "b"});
}

TEST_CASE("a command has no default cube and runs beside its recipe") {
  const Recipe recipe =
      parse("command: train {x}\nspace: { x: { int: [1, 9] }, mode: 3 }")
          .recipe();
  CHECK(recipe.space.dimensions() == 2);
  CHECK(recipe.space.parameters()[0].key.empty());
  CHECK(recipe.command->directory == "/recipes");
}

TEST_CASE("a network's expectations may be of the study as a whole") {
  const Recipe recipe =
      parse(
          "expect: { trials: '>= 3', failed_trials: < 1, search_seconds: < 9 }")
          .recipe();
  REQUIRE(recipe.expect.size() == 3);
  CHECK(recipe.expect[1].metric == "failed_trials");
}

TEST_CASE("expectations may be several for one metric") {
  const Recipe recipe =
      parse("expect: { test_accuracy: ['> 0.5', '<= 1'], val_loss: < 2 }")
          .recipe();
  REQUIRE(recipe.expect.size() == 3);
  CHECK(recipe.expect[0].comparison == Comparison::greater);
  CHECK(recipe.expect[1].comparison == Comparison::less_equal);
  CHECK(recipe.expect[2].comparison == Comparison::less);
  CHECK(recipe.expect[2].bound == 2);
}

TEST_CASE("a file that is not there is one clear error") {
  CHECK_THROWS_AS(RecipeFile::load("/nowhere/r.yaml"), RecipeError);
  try {
    RecipeFile::load("/nowhere/r.yaml");
  } catch (const RecipeError& error) {
    CHECK(std::string(error.what())
              .starts_with("/nowhere/r.yaml: cannot be read as a recipe: "));
  }
}

TEST_CASE("a file's recipe starts at the file's folder") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "mine.yaml";
  write_file_atomic(path, "data: { kind: folder, path: images }\n", false);
  const Recipe recipe = RecipeFile::load(path).recipe();
  CHECK(recipe.data.path == (folder.path() / "images").string());
  CHECK(recipe.study == "mine");
}

}  // namespace
}  // namespace dtune
