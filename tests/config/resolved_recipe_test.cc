// Resolved recipes, points put into them, and what tells two of them apart.
#include "config/recipe_fixture.h"

#include "dtune/base/random.h"
#include "dtune/config/recipe_file.h"

namespace dtune {
namespace {

// Random but valid recipes.
std::string random_recipe(Rng& rng) {
  const auto pick = [&](std::vector<std::string> lines) {
    return lines[rng.below(lines.size())];
  };
  return pick({"", "study: other\n", "seed: 12345678901234567\n"}) +
         pick({"",
               "data: { kind: synthetic, size: 16, classes: 3, difficulty: "
               "0.25 }\n",
               "data: { kind: folder, path: a b, size: [32, 48], gray: yes, "
               "augment: [flip] }\n",
               "data: { kind: npz, path: 'x: y.npz', balance: true }\n"}) +
         pick({"", "model: lenet\n",
               "model: { arch: wide-resnet, depth: 22 }\n",
               "layers: [conv: 8, max_pool: {kernel: 3, stride: 2}, dropout, "
               "linear: 9]\n",
               "layers: [conv: {channels: 4, name: 'true'}, residual: [conv: "
               "4, batch_norm], {dropout: 0.5}, group_norm: 2]\n"}) +
         pick({"",
               "train: { epochs: 2.5, step: { samples: 500 }, schedule: { "
               "kind: step, milestones: [1, 2.25] } }\n",
               "train: { optimizer: adamw, betas: [0.8, 0.99], lr: 0.001, "
               "loss: focal, device: cuda:1 }\n"}) +
         pick(
             {"", "space: none\n", "space: { l2: 0 }\n",
              "space: { b: { choice: [32, 64], key: train.batch_size, prior: "
              "64 }, n: { bool: true, key: train.nesterov, when: b == 64 } }\n",
              "space: { l2: { float: [0, 0.1], step: 0.05 } }\n"
              "constraints: [l2 < 0.09]\n"}) +
         pick({"", "objective: val_loss\n"}) +
         pick({"", "parallel: { mode: data, sync: ps, ps: { bound: 2 } }\n",
               "parallel: { mode: hybrid, data: 3, stragglers: off }\n",
               "parallel: { mode: model, pipeline: { micro_batches: 8 } }\n"
               "nodes: [local, 'ssh://a@b:22 slots=3']\n"}) +
         pick({"", "warm_start: [old.db, '../b c.db', /abs/d.db]\n"}) +
         pick({"", "scheduler: { kind: asha, eta: 4, mode: standard }\n",
               "sampler: { kind: grid, points: 3 }\nscheduler: fifo\n"}) +
         pick({"", "budget: { time: 0.25, trials: 0 }\n"}) +
         pick({"", "limits: { lease: 20.125s, trial_time: 1h }\n"}) +
         pick({"", "expect: { val_loss: ['< 2', '> -1e-3'] }\n"}) +
         pick({"slots: 3\n", "final: { seeds: 2, data: train+validation }\n"});
}

TEST_CASE("a resolved recipe reads back as the same recipe anywhere") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const std::string yaml = random_recipe(rng);
    CAPTURE(yaml);
    const RecipeFile file = parse(yaml);
    const std::string resolved = file.resolved_yaml();
    CAPTURE(resolved);
    const RecipeFile again =
        RecipeFile::parse(resolved, "elsewhere.yaml", "/elsewhere");
    CHECK(again.resolved_yaml() == resolved);
    CHECK(RecipeFile::parse(resolved, "r.yaml", file.recipe().directory)
              .search_hash() == file.search_hash());
    CHECK(again.recipe().space.dimensions() ==
          file.recipe().space.dimensions());
    CHECK(again.recipe().model.layers.size() ==
          file.recipe().model.layers.size());
    CHECK(again.recipe().train.lr == file.recipe().train.lr);
    CHECK(again.recipe().warm_start == file.recipe().warm_start);
  }
}

TEST_CASE("ranks and nodes are read, and do not define the search") {
  const RecipeFile plain = parse("data: mnist");
  CHECK(plain.resolved_yaml().find("parallel") == std::string::npos);
  const RecipeFile file = parse(R"(
data: mnist
parallel: { mode: hybrid, data: 2, model: 3 }
nodes: [local, ssh://gpu1, ssh://me@gpu2:2222 slots=4]
)");
  const Recipe& recipe = file.recipe();
  CHECK(recipe.parallel.ranks == 6);
  CHECK(gang_members(recipe.parallel) == 6);
  REQUIRE(recipe.nodes.size() == 3);
  CHECK(recipe.nodes[2].address == "ssh://me@gpu2:2222");
  CHECK(recipe.nodes[2].slots == 4);
  CHECK(file.search_hash() == plain.search_hash());
  const Recipe ps =
      parse("parallel: { mode: data, ranks: 3, sync: ps }").recipe();
  CHECK(gang_members(ps.parallel) == 4);
}

TEST_CASE("what a stored recipe wrote by itself is no mistake") {
  const auto change = [](const std::string& yaml,
                         const std::vector<Override>& overrides) {
    return RecipeFile::parse_stored(parse(yaml).resolved_yaml(), "s.db: recipe",
                                    "/recipes", overrides)
        .recipe()
        .parallel;
  };
  const std::string data = "parallel: { mode: data, ranks: 3, sync: ps }";
  const ParallelSpec model = change(data, {{"parallel.mode", "model"}});
  CHECK(model.mode == ParallelMode::model);
  CHECK(model.ranks == 3);
  CHECK(change(data, {{"parallel.sync", "allreduce"}}).sync ==
        SyncKind::allreduce);
  CHECK(change(data, {{"parallel.mode", "hybrid"}}).ranks == 4);
  CHECK(change(data, {{"parallel.mode", "none"}}).mode == ParallelMode::none);
  CHECK(
      change("parallel: { mode: hybrid, data: 3 }", {{"parallel.mode", "data"}})
          .mode == ParallelMode::data);
  // What is said now has to make sense.
  CHECK_THROWS_AS(
      change(data, {{"parallel.mode", "model"}, {"parallel.sync", "ps"}}),
      RecipeError);
  CHECK_THROWS_AS(change("seed: 1", {{"parallel.ranks", "3"}}), RecipeError);
  CHECK_THROWS_AS(change("parallel: { mode: data, ranks: 12 }",
                         {{"parallel.mode", "model"}}),
                  RecipeError);
}

TEST_CASE("a stored recipe that an older version let pass is still read") {
  const std::string yaml =
      "nodes: [local, local, ssh://gpu:99999]\n"
      "parallel: { mode: model, ranks: 50 }\n";
  CHECK(RecipeFile::parse_stored(yaml, "s.db: recipe", "/")
            .recipe()
            .nodes[2]
            .address == "ssh://gpu:99999");
  CHECK_THROWS_AS(RecipeFile::parse_stored(yaml, "s.db: recipe", "/",
                                           {{"parallel.ranks", "40"}}),
                  RecipeError);
}

TEST_CASE("a warm start's files are found from the recipe's folder") {
  const RecipeFile file = RecipeFile::parse(
      "warm_start: [old.db, ../b.db, /abs/d.db]", "r.yaml", "/here/there");
  CHECK(file.recipe().warm_start ==
        std::vector<std::string>{"/here/there/old.db", "/here/b.db",
                                 "/abs/d.db"});
  const RecipeFile cold = RecipeFile::parse("seed: 0", "r.yaml", "/here");
  CHECK(cold.resolved_yaml().find("warm_start") == std::string::npos);
  CHECK(cold.search_hash() != file.search_hash());
  CHECK(file.with_point({{"lr", 0.1}, {"l2", 1e-4}, {"dropout", 0.1}})
            .recipe.warm_start.empty());
}

TEST_CASE("every point of a space gives a recipe that reads alone") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    const std::string yaml = random_recipe(rng);
    CAPTURE(yaml);
    const RecipeFile file = parse(yaml);
    const SearchSpace& space = file.recipe().space;
    std::vector<double> unit(space.dimensions());
    for (double& u : unit) u = rng.uniform();
    const Point point = space.decode(unit);
    if (!space.satisfies(point)) continue;
    const TrialRecipe trial = file.with_point(point);
    CHECK(trial.recipe.space.dimensions() == 0);
    const RecipeFile alone = RecipeFile::parse(trial.yaml, "t.yaml", "/");
    CHECK(alone.resolved_yaml() == trial.yaml);
    CHECK(alone.recipe().train.batch_size == trial.recipe.train.batch_size);
    CHECK(alone.recipe().train.lr == trial.recipe.train.lr);
  }
}

TEST_CASE("a point's values go to their keys") {
  const RecipeFile file = parse(R"(
layers:
  - conv: { channels: 8, name: c1 }
  - relu
  - conv: 16
  - dropout: { name: d, p: 0.1 }
space:
  lr: { log: [1.0e-4, 0.5] }
  batch: { choice: [32, 64], key: train.batch_size }
  width: { int: [4, 32], key: model.layers.c1.channels }
  kernel: { choice: [3, 5], key: model.layers.conv2.kernel }
  rate: { linear: [0, 0.5], key: model.layers.d.p }
  shift: { int: [0, 3], key: data.augment.shift }
  data.augment.mixup: { linear: [0, 1] }
  train.ema: { choice: [0, 0.99] }
  nesterov: { bool: true, key: train.nesterov }
)");
  const Recipe recipe = file.with_point({{"lr", 0.125},
                                         {"l2", 1e-4},
                                         {"batch", int64_t{64}},
                                         {"width", int64_t{12}},
                                         {"kernel", int64_t{5}},
                                         {"rate", 0.25},
                                         {"shift", int64_t{2}},
                                         {"data.augment.mixup", 0.25},
                                         {"train.ema", 0.99},
                                         {"nesterov", true}})
                            .recipe;
  CHECK(recipe.train.lr == 0.125);
  CHECK(recipe.train.l2 == 1e-4);
  CHECK(recipe.train.batch_size == 64);
  CHECK(recipe.train.nesterov);
  CHECK(recipe.data.augment.shift == 2);
  CHECK(recipe.data.augment.mixup == 0.25);
  CHECK(recipe.train.ema == 0.99);
  CHECK(recipe.model.layers[0].channels == 12);
  CHECK(recipe.model.layers[2].kernel == 5);
  CHECK(recipe.model.layers[3].p == 0.25);
}

TEST_CASE("a conditional key keeps its own value where it is not tuned") {
  const RecipeFile file = parse(R"(
train: { momentum: 0.5 }
space:
  lr: 0.1
  l2: 0
  dropout: 0
  o: { choice: [sgd, adam], key: train.optimizer }
  m: { linear: [0.8, 0.9], key: train.momentum, when: "o == 'sgd'" }
)");
  const auto momentum = [&](const Point& point) {
    return file.with_point(point).recipe.train.momentum;
  };
  CHECK(momentum({{"o", "sgd"}, {"m", 0.85}}) == 0.85);
  CHECK(momentum({{"o", "adam"}}) == 0.5);
  const RecipeFile resolved =
      RecipeFile::parse(file.resolved_yaml(), "x.yaml", "/");
  CHECK(resolved.with_point({{"o", "adam"}}).recipe.train.momentum == 0.5);
}

TEST_CASE("a point that is not of the space is refused") {
  const RecipeFile file = parse("seed: 1");
  CHECK_THROWS_AS(file.with_point({{"lr", 0.1}}), RecipeError);
  CHECK_THROWS_AS(
      file.with_point({{"lr", 7.0}, {"l2", 1e-4}, {"dropout", 0.1}}),
      RecipeError);
}

TEST_CASE("a command's point leaves the recipe as it is") {
  const RecipeFile file =
      parse("command: x {a}\nspace: { a: { int: [1, 9] } }");
  const TrialRecipe trial = file.with_point({{"a", int64_t{3}}});
  CHECK(trial.recipe.command->argv == std::vector<std::string>{"x", "{a}"});
  // The runner puts the values into the words by the space's names.
  CHECK(trial.recipe.space.find("a"));
}

TEST_CASE("overrides come in the order given and are kept") {
  const RecipeFile file =
      parse("train: { schedule: cosine, step: epoch }",
            {"train.epochs=4", "train.epochs=5", "train.schedule.warmup=1",
             "train.step.samples=700", "slots=3", "space.lr=0.1",
             "data.augment=[flip, shift: 1]", "expect.val_loss=< 2"});
  const Recipe& recipe = file.recipe();
  CHECK(recipe.train.epochs == 5);
  CHECK(recipe.train.schedule.kind == ScheduleKind::cosine);
  CHECK(recipe.train.schedule.warmup == 1);
  CHECK(recipe.train.step_samples == 700);
  CHECK(recipe.resources.slots == 3);
  CHECK(recipe.train.lr == 0.1);
  CHECK(recipe.data.augment.shift == 1);
  CHECK(recipe.expect.size() == 1);
  CHECK(RecipeFile::parse(file.resolved_yaml(), "r.yaml", "/recipes")
            .resolved_yaml() == file.resolved_yaml());
}

TEST_CASE("an override by a short form replaces what the recipe has") {
  const RecipeFile file =
      parse("slots: 2\nlayers: [conv: 8, relu]",
            {"slots=3", "slots=1", "layers.conv1.channels=24"});
  CHECK(file.recipe().resources.slots == 1);
  CHECK(file.recipe().model.layers[0].channels == 24);
  CHECK(parse("model: { layers: [relu] }", {"layers=[conv: 8]"})
            .recipe()
            .model.layers[0]
            .channels == 8);
}

TEST_CASE("an override reaches a layer and a line of the space by name") {
  const RecipeFile file = parse(
      "layers: [conv: 8, relu]\nspace: { train.momentum: { linear: [0, "
      "0.9] } }",
      {"model.layers.conv1.channels=24",
       "space.train.momentum.linear=[0.5, 0.9]"});
  CHECK(file.recipe().model.layers[0].channels == 24);
  const auto index = file.recipe().space.find("train.momentum");
  REQUIRE(index);
  CHECK(file.recipe().space.parameters()[*index].low == 0.5);
}

TEST_CASE("the search's hash sees the search and nothing else") {
  const std::string hash = parse("seed: 1").search_hash();
  CHECK(hash.size() == 16);
  CHECK(parse("seed: 1\nstudy: other\nslots: 4\nbudget: { trials: 3 }\nfinal: "
              "false\nexpect: { val_loss: < 9 }\nlimits: { retries: 9 }")
            .search_hash() == hash);
  CHECK(parse("seed: 2").search_hash() != hash);
  CHECK(parse("seed: 1\ntrain: { epochs: 3 }").search_hash() != hash);
  CHECK(parse("seed: 1\nspace: { lr: 0.1 }").search_hash() != hash);
  CHECK(parse("seed: 1\nscheduler: fifo").search_hash() != hash);
}

TEST_CASE("a recipe that was moved with what it names is the same search") {
  const std::string yaml =
      "command: ./train {lr}\nspace: { lr: { log: [0.1, 1] } }\n"
      "warm_start: [old.db]\n";
  const auto hash = [&](const char* folder) {
    return RecipeFile::parse(yaml, "r.yaml", folder).search_hash();
  };
  CHECK(hash("/home/one") == hash("/home/two"));
  CHECK(hash("/home/one") == hash("/home/one/"));
  const std::string here = RecipeFile::parse(yaml, "r.yaml", "/home/one/")
                               .recipe()
                               .command->directory;
  CHECK(here == "/home/one");
  const auto of_images = [&](const std::string& path) {
    return parse("data: { kind: folder, path: " + path + " }").search_hash();
  };
  CHECK(of_images("a") == of_images("./a"));
  CHECK(of_images("a") != of_images("b"));
  CHECK(of_images("../a") != of_images("a"));
}

TEST_CASE("changed keys are named, those gone and added too") {
  const std::string before = parse("train: { epochs: 3 }").resolved_yaml();
  CHECK(changed_keys(before, before).empty());
  const std::string after =
      parse("train: { epochs: 4 }\nspace: { l2: { log: [1e-5, 1e-2] } }")
          .resolved_yaml();
  CHECK(changed_keys(before, after) ==
        std::vector<std::string>{"space.l2.float", "train.epochs"});
  CHECK(changed_keys("a: 1\nb: {c: 2}", "b: {c: 2, d: 3}") ==
        std::vector<std::string>{"a", "b.d"});
}

}  // namespace
}  // namespace dtune
