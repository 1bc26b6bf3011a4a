#include "config/recipe_fixture.h"

#include "dtune/config/recipe_file.h"

namespace dtune {
namespace {

std::vector<std::string> names(const Recipe& recipe) {
  std::vector<std::string> all;
  for (const Parameter& one : recipe.space.parameters()) {
    all.push_back(one.name);
  }
  return all;
}

using Names = std::vector<std::string>;

Parameter only(const std::string& line) {
  const Recipe recipe = parse("space: { " + line + " }").recipe();
  for (const Parameter& one : recipe.space.parameters()) {
    if (line.starts_with(one.name + ":")) return one;
  }
  FAIL("no such parameter");
  return {};
}

TEST_CASE("lines that are left out take their default") {
  CHECK(names(parse("space: { lr: { log: [1e-3, 1] } }").recipe()) ==
        Names{"l2", "dropout", "lr"});
  CHECK(names(parse("space:").recipe()) == Names{"lr", "l2", "dropout"});
}

TEST_CASE("a plain value fixes a key") {
  const Recipe recipe =
      parse("space: { lr: 0.2, train.batch_size: 64 }").recipe();
  CHECK(names(recipe) == Names{"l2", "dropout"});
  CHECK(recipe.train.lr == 0.2);
  CHECK(recipe.train.batch_size == 64);
}

TEST_CASE("a value given in its section fixes it as well") {
  const Recipe recipe =
      parse("train: { lr: 0.2 }\nmodel: { dropout: 0.1 }").recipe();
  CHECK(names(recipe) == Names{"l2"});
  CHECK(names(parse("seed: 1", {"train.l2=0"}).recipe()) ==
        Names{"lr", "dropout"});
}

TEST_CASE("space: none tunes nothing") {
  CHECK(parse("space: none").recipe().space.dimensions() == 0);
  CHECK(parse("space: false").recipe().space.dimensions() == 0);
}

TEST_CASE("a role says what a parameter is for a training") {
  CHECK(only("x: { log: [1e-3, 0.9], key: train.momentum, role: l2 }").role ==
        ParameterRole::l2);
  const std::string command = "command: { run: [a, \"{x}\"], steps: 3 }\n";
  const RecipeFile file =
      parse(command + "space: { x: { log: [1e-3, 1], role: learning-rate } }");
  CHECK(file.recipe().space.parameters()[0].role ==
        ParameterRole::learning_rate);
  CHECK(parse(file.resolved_yaml()).recipe().space.parameters()[0].role ==
        ParameterRole::learning_rate);
  CHECK(problem(command + "space: { x: { log: [1e-3, 1], role: lr } }")
            .starts_with("r.yaml:2:37: 'space.x.role' must be one of none, "
                         "learning_rate, l2, dropout"));
  CHECK(problem(command + "space: { x: { choice: [a, b], role: l2 } }") ==
        "r.yaml:2:37: 'x' is not a number, so it cannot be l2");
  CHECK(problem(command +
                "space: { x: { log: [1e-3, 1], role: l2 }, y: { log: [1e-3, "
                "1], role: l2 } }") ==
        "r.yaml:2:70: two parameters are the l2 (keep one role)");
  CHECK(problem("space: { lr: { log: [1e-3, 1], role: l2 } }") ==
        "r.yaml:1:38: 'space.lr.role' has no effect: train.lr says what the "
        "parameter is (remove it)");
}

TEST_CASE("a choice may be ordered") {
  const Parameter size =
      only("x: { choice: [sgd, adam], ordered: true, key: train.optimizer }");
  CHECK(size.ordered);
  CHECK(problem("space: { lr: { log: [1e-3, 1], ordered: true } }") ==
        "r.yaml:1:32: 'ordered' is for a choice (other parameters have an "
        "order)");
}

TEST_CASE("a line of the cube gives way to another name for its key") {
  const Recipe recipe =
      parse("space: { rate: { log: [1e-3, 1], key: train.lr } }").recipe();
  CHECK(names(recipe) == Names{"l2", "dropout", "rate"});
}

TEST_CASE("dropout is tuned only where a layer takes it") {
  CHECK(names(parse("layers: [conv: 8, relu]").recipe()) == Names{"lr", "l2"});
  CHECK(names(parse("layers: [conv: 8, dropout]").recipe()) ==
        Names{"lr", "l2", "dropout"});
  CHECK(names(parse("layers: [{residual: [conv: 1, dropout]}]").recipe()) ==
        Names{"lr", "l2", "dropout"});
  // The space has the layer's own p, always or at times.
  const std::string own =
      "layers: [conv: 8, dropout]\n"
      "space: { f: { bool: true, key: data.augment.flip }, p: { linear: "
      "[0, 0.5], key: model.layers.dropout1.p";
  CHECK(names(parse(own + " } }").recipe()) == Names{"lr", "l2", "f", "p"});
  CHECK(names(parse(own + ", when: f } }").recipe()) ==
        Names{"lr", "l2", "dropout", "f", "p"});
  CHECK(
      problem("layers: [conv: 8]\nspace: { dropout: { linear: [0, 0.5] } }") ==
      "r.yaml:2:19: no layer takes its rate from model.dropout (add '- "
      "dropout' to layers, or set a layer's own p: key: "
      "model.layers.<name>.p)");
}

TEST_CASE("every form of a line reads") {
  Parameter one =
      only("b: { int: [16, 128], step: 16, key: train.batch_size }");
  CHECK(one.kind == ParameterKind::integer);
  CHECK(one.quantum == 16);
  one = only("b: { int: [16, 256], log: true, key: train.batch_size }");
  CHECK(one.log);
  one = only("lr: { float: [0.1, 0.5], log: true }");
  CHECK(one.kind == ParameterKind::real);
  CHECK(one.log);
  one = only("o: { choice: [sgd, adam], key: train.optimizer }");
  CHECK(one.choices == std::vector<Value>{"sgd", "adam"});
  one = only("n: { bool: true, key: train.nesterov }");
  CHECK(one.kind == ParameterKind::boolean);
  one = only("lr: { log: [1e-3, 1], prior: 0.1, confidence: high }");
  CHECK(*one.prior == Value(0.1));
  CHECK(one.confidence == Confidence::high);
  one = only("train.momentum: { linear: [0, 0.9], prior: 0 }");
  CHECK(one.key == "train.momentum");
  CHECK(*one.prior == Value(0.0));
}

TEST_CASE("ranges that cannot be are refused at their line") {
  const auto line = [](const std::string& text) {
    return problem("space:\n  lr: " + text);
  };
  CHECK(line("{ log: [0, 0.5] }") ==
        "r.yaml:2:7: space.lr: a log range cannot touch 0, and starts at 0 "
        "(use a small positive number such as 1e-6, or linear)");
  CHECK(line("{ log: [0.5, 0.1] }") ==
        "r.yaml:2:7: space.lr: the range [0.5, 0.1] is reversed (write [0.1, "
        "0.5])");
  CHECK(line("{ log: [0.5, 0.5] }")
            .starts_with(
                "r.yaml:2:7: space.lr: the range [0.5, 0.5] holds one value"));
  CHECK(line("{ log: [0.5] }") ==
        "r.yaml:2:14: 'log' must be a range [low, high], but is a list");
  CHECK(line("{ log: [low, 1] }") ==
        "r.yaml:2:15: a bound of 'log' must be a finite number, but is 'low'");
  CHECK(line("{ log: [1e-3, .inf] }").ends_with("but is '.inf'"));
  CHECK(line("{ int: [1.5, 3] }") ==
        "r.yaml:2:15: a bound of 'int' must be a whole number, but is '1.5'");
  CHECK(line("{ log: [1e-3, 1], linear: [0, 1] }") ==
        "r.yaml:2:9: 'lr' has both 'linear' and 'log' (keep one)");
  CHECK(line("{ key: train.lr }") ==
        "r.yaml:2:7: 'lr' has no range (write one of {log: [a, b]}, {linear: "
        "[a, b]}, {int: [a, b]}, {choice: [...]} or {bool: true}, or a plain "
        "value to fix it)");
  CHECK(line("[0.1, 0.5]").starts_with("r.yaml:2:7: 'lr' must be one of {log"));
  CHECK(line("{ choice: [] }") ==
        "r.yaml:2:17: 'choice' must be a list of 1 to 1000 values, but is "
        "empty");
  CHECK(line("{ log: [1e-3, 1], whn: x }") ==
        "r.yaml:2:25: unknown key 'whn' in space.lr, did you mean 'when'?");
  CHECK(line("{ log: [1e-3, 1], prior: 7 }")
            .starts_with("r.yaml:2:7: space.lr: the prior "));
  CHECK(line("{ log: [1e-3, 1], confidence: high }") ==
        "r.yaml:2:25: 'confidence' needs a prior: the value that you expect to "
        "be best");
  CHECK(line("{ linear: [0, 1], step: 0 }") ==
        "r.yaml:2:31: 'step' must be more than 0, but is '0'");
  CHECK(line("{ linear: [0, 1], step: 0.3 }")
            .ends_with("is not 0 + k 0.3 (use 0.9 or 1.2 as the upper bound)"));
}

TEST_CASE("an unknown key is refused with a suggestion") {
  const auto keyed = [](const std::string& name, const std::string& key) {
    return problem("space: { " + name + ": { int: [1, 9]" +
                   (key.empty() ? "" : ", key: " + key) + " } }");
  };
  CHECK(keyed("b", "train.bach_size") ==
        "r.yaml:1:33: 'train.bach_size' is not a key of this recipe, did you "
        "mean "
        "'train.batch_size'?");
  CHECK(keyed("width", "") ==
        "r.yaml:1:10: 'width' does not say which key of the recipe it sets "
        "(add key: "
        "model.width)");
  CHECK(keyed("learning_rate", "") ==
        "r.yaml:1:10: 'learning_rate' does not say which key of the recipe it "
        "sets (add key: train.lr)");
  CHECK(keyed("x", "budget.trials") ==
        "r.yaml:1:33: 'budget.trials' cannot be tuned (train.*, model.*, "
        "data.augment.*, data.balance and data.normalize can, but not "
        "train.epochs, train.step, train.device)");
  CHECK(
      keyed("x", "model.layers.conv1.channels") ==
      "r.yaml:1:33: 'model.layers.conv1.channels' is not a key of this recipe");
  CHECK(keyed("data.shift", "") ==
        "r.yaml:1:10: 'data.shift' is not a key of this recipe, did you mean "
        "'data.augment.shift'?");
  CHECK(keyed("-b", "model.width")
            .starts_with("r.yaml:1:10: '-b' cannot name a parameter"));
  CHECK(keyed(std::string(101, 'n'), "model.width")
            .find("nn' cannot name a parameter (1 to 100 letters, digits, ") !=
        std::string::npos);
}

TEST_CASE("a name with a minus stands in back quotes in conditions") {
  const auto parse = [](const char* condition) {
    return RecipeFile::parse(
        std::string("command: x {weight-decay} {n}\nspace: { weight-decay: { "
                    "linear: [0, 1] }, n: { int: [1, 3], when: '") +
            condition + "' } }",
        "r.yaml", ".");
  };
  const RecipeFile file =
      parse("`weight-decay` > 0.5 and `weight-decay` - 1 < 0");
  const SearchSpace& space = file.recipe().space;
  REQUIRE(space.parameters().size() == 2);
  CHECK(space.parameters()[0].name == "weight-decay");
  CHECK_THROWS_WITH_AS(
      parse("weight-decay > 0.5"),
      doctest::Contains("unknown parameter 'weight' (put 'weight-decay' in "
                        "back quotes: it has a minus)"),
      RecipeError);
}

TEST_CASE("a key is given once") {
  CHECK(problem("train: { lr: 0.1 }\nspace: { lr: { log: [1e-3, 1] } }") ==
        "r.yaml:1:14: 'train.lr' is tuned by space.lr (remove one; to fix it "
        "write lr: 0.1 in space)");
  CHECK(problem("train: { lr: 0.1 }\nspace: { lr: 0.2 }") ==
        "r.yaml:2:14: 'lr' is given here and as 'train.lr' (keep one)");
  CHECK(problems("space: { a: { int: [1, 9], key: model.width }, b: { int: "
                 "[1, 9], key: model.width } }")
            .size() == 2);
}

TEST_CASE("conditions are checked where they stand") {
  const auto when = [](const std::string& text) {
    return problem(
        "space:\n  o: { choice: [sgd, adam], key: train.optimizer "
        "}\n  m: { linear: [0, 0.9], key: train.momentum, when: " +
        text + " }");
  };
  CHECK(when("\"o == 'sgd'\"") == "0 problems");
  CHECK(when("\"oo == 'sgd'\"")
            .starts_with("r.yaml:3:53: space.m: when: unknown parameter 'oo', "
                         "did you mean 'o'?"));
  CHECK(when("\"o ==\"").starts_with("r.yaml:3:53: space.m: when: "));
}

TEST_CASE("all wrong constraints are reported, each at its line") {
  const auto found =
      problems("constraints:\n  - lr < 1\n  - lrr < 1\n  - l2 <");
  REQUIRE(found.size() == 2);
  CHECK(found[0].starts_with("r.yaml:3:5: "));
  CHECK(found[1].starts_with("r.yaml:4:5: "));
  CHECK(problem("constraints: [lr > 1]") ==
        "r.yaml:1:14: constraints: no point among 10000 satisfies 'lr > 1' "
        "(loosen it, or the ranges)");
  CHECK(problem("constraints: { a: 1 }")
            .starts_with("r.yaml:1:14: 'constraints' must be a list"));
}

TEST_CASE("a fixed name that a condition reads stays a parameter") {
  const std::string yaml = R"(
space:
  o: { choice: [sgd, adam], key: train.optimizer }
  m: { linear: [0, 0.9], key: train.momentum, when: "o == 'sgd'" }
)";
  const Recipe recipe = parse(yaml, {"space.o=adamw"}).recipe();
  const auto index = recipe.space.find("o");
  REQUIRE(index);
  CHECK(recipe.space.parameters()[*index].choices ==
        std::vector<Value>{"adamw"});
  CHECK(recipe.space.parameters()[*index].key == "train.optimizer");
}

TEST_CASE("an override that fixes a parameter leaves it its key") {
  const std::string yaml =
      "space: { batch: { int: [16, 64], key: train.batch_size } }";
  const Recipe recipe = parse(yaml, {"space.batch=48"}).recipe();
  CHECK_FALSE(recipe.space.find("batch"));
  CHECK(recipe.train.batch_size == 48);
  CHECK(parse("space: { b: { value: 24, key: train.batch_size } }")
            .recipe()
            .train.batch_size == 24);
  CHECK(problem("space: { lr: { value: 0.1, prior: 0.2 } }") ==
        "r.yaml:1:28: 'lr' has a value, so 'prior' has no effect (remove one "
        "of them)");
}

TEST_CASE("values at the ends of the space are tried when it is read") {
  CHECK(problem("model: { arch: wide-resnet }\nspace: { d: { int: [10, 20], "
                "key: model.depth } }") ==
        "r.yaml:2:13: 'd' cannot be 20: wide-resnet has no depth 20 (use 6 n + "
        "4: 10, 16, 22, 28, 34, 40)");
  CHECK(
      problem("space: { o: { choice: [sgd, adma], key: train.optimizer } }") ==
      "r.yaml:1:13: 'o' cannot be adma: 'train.optimizer' must be one of sgd, "
      "adam, adamw, but is 'adma', did you mean 'adam'?");
  CHECK(
      problem("space: { dropout: { linear: [0, 1.5] } }") ==
      "r.yaml:1:19: 'dropout' cannot be 1.5: 'model.dropout' must be at least "
      "0 and less than 1, but is 1.5");
  const std::string broken =
      problem("space: { b: { linear: [16, 64.5], key: train.batch_size } }");
  CHECK(broken.starts_with("r.yaml:1:8: no point of the space gives a recipe"));
  CHECK(broken.find("'train.batch_size' must be a whole number") !=
        std::string::npos);
  CHECK(problem("layers: [conv: {channels: 8, name: c, padding: 0}]\nspace: { "
                "k: { choice: [3, 29], key: model.layers.c.kernel } }") ==
        "r.yaml:2:13: 'k' cannot be 29: layer 'c': kernel 29 does not fit its "
        "input 1x28x28 (use padding: 1 or a smaller kernel)");
}

TEST_CASE("a space in which nothing can be trained says what happens") {
  CHECK(problem("layers: [conv: {channels: 8, name: c, padding: 0}]\nspace: { "
                "lr: 0.1, l2: 0, k: { choice: [31, 33], key: "
                "model.layers.c.kernel } }")
            .starts_with("r.yaml:2:8: no point of the space gives a recipe "
                         "that can be trained; at k=3"));
}

TEST_CASE("ends that a constraint or condition excludes are not tried") {
  CHECK(problem("space: { b: { int: [0, 64], key: train.batch_size } }\n"
                "constraints: [b > 0]") == "0 problems");
  CHECK(problem("model: { arch: wide-resnet }\n"
                "space:\n"
                "  d: { int: [10, 20], key: model.depth }\n"
                "constraints: [d < 11 or d == 16]") == "0 problems");
}

}  // namespace
}  // namespace dtune
