// What a user reads after a mistake, word for word.
#include "config/recipe_fixture.h"
#include <fmt/format.h>

#include "dtune/config/recipe_file.h"

namespace dtune {
namespace {

TEST_CASE("an unknown key shows its line, a caret and what was meant") {
  try {
    parse("study: x\ntrain:\n  epochs: 3\n  lerning_rate: 0.1\n");
    FAIL("no error");
  } catch (const RecipeError& error) {
    CHECK(error.what() ==
          std::string("r.yaml:4:3: unknown key 'lerning_rate' in train, did "
                      "you mean 'lr'?\n"
                      "    lerning_rate: 0.1\n"
                      "    ^"));
  }
}

TEST_CASE("all mistakes are reported at once, in the order of the file") {
  const auto found = problems(R"(
data: { kind: fashion-mnits }
train: { epochs: many, batch_size: 0 }
budgets: { trials: 3 }
)");
  REQUIRE(found.size() == 4);
  CHECK(found[0] ==
        "r.yaml:2:15: 'data.kind' must be one of fashion-mnist, mnist, "
        "cifar10, cifar100, npz, folder, synthetic, but is 'fashion-mnits', "
        "did you mean 'fashion-mnist'?");
  CHECK(found[1] ==
        "r.yaml:3:18: 'train.epochs' must be a finite number, but is 'many'");
  CHECK(found[2] ==
        "r.yaml:3:36: 'train.batch_size' must be between 1 and 65536, but is "
        "0");
  CHECK(found[3] ==
        "r.yaml:4:1: unknown key 'budgets', did you mean 'budget'?");
}

TEST_CASE("a key of another section or program gets a hint where it belongs") {
  CHECK(problem("epochs: 3") ==
        "r.yaml:1:1: unknown key 'epochs', did you mean 'train.epochs'?");
  CHECK(problem("train: { flip: true }") ==
        "r.yaml:1:10: unknown key 'flip' in train, did you mean "
        "'data.augment.flip'?");
  CHECK(problem("train: { weight_decay: 1e-4 }") ==
        "r.yaml:1:10: unknown key 'weight_decay' in train, did you mean 'l2'?");
  CHECK(problem("n_trials: 3") ==
        "r.yaml:1:1: unknown key 'n_trials', did you mean 'budget.trials'?");
  CHECK(problem("final: { xyzzy: 1 }") ==
        "r.yaml:1:10: unknown key 'xyzzy' in final (known here: enabled, data, "
        "epochs, seeds, candidates, keep, threshold)");
}

TEST_CASE("impossible averages and thresholds are refused with a message") {
  CHECK(problem("train: { ema: 1 }") ==
        "r.yaml:1:15: 'train.ema' must be at least 0 and less than 1, but is "
        "1");
  CHECK(problem("train: { ema: 0.9 }\n"
                "parallel: { mode: data, sync: ps }") ==
        "r.yaml:1:15: 'train.ema' is not possible with a parameter server, "
        "whose workers do not see every update (use sync: allreduce, or remove "
        "it)");
  const std::string synthetic = "data: { kind: synthetic, classes: 2 }\n";
  CHECK(problem(synthetic +
                "final: { threshold: balanced, data: train+validation }") ==
        "r.yaml:2:21: 'final.threshold' is chosen on the validation images, "
        "which must not be trained on (use final.data: train, or threshold: "
        "half)");
  CHECK(problem("data: mnist\nfinal: { threshold: accuracy }") ==
        "r.yaml:2:21: 'final.threshold' is for two classes, but the data have "
        "10 (remove it)");
  CHECK(problem("data: { augment: [mixup: 1.5] }") ==
        "r.yaml:1:26: 'data.augment.mixup' must be between 0 and 1, but is "
        "1.5");
}

TEST_CASE("ranks that cannot work are refused with a message") {
  CHECK(problem("nodes: [local, gpu1]") ==
        "r.yaml:1:16: 'gpu1' is not a node (write local, ssh://host or "
        "'ssh://user@host:22 slots=4')");
  CHECK(problem("nodes: ['ssh://-oProxyCommand=x']") ==
        "r.yaml:1:9: 'ssh://-oProxyCommand=x' is not a node (write local, "
        "ssh://host or 'ssh://user@host:22 slots=4')");
  CHECK(problem("nodes: ['ssh://me@[::1]:70000']") ==
        "r.yaml:1:9: 'ssh://me@[::1]:70000' has no port after its ':' (a "
        "number from 1 to 65535, or leave it out)");
  CHECK(problem("parallel: { ranks: 4 }") ==
        "r.yaml:1:11: 'parallel' needs a mode (data: every rank has the whole "
        "network; model: each has some layers)");
  CHECK(problem("train: { batch_size: 3 }\nparallel: { mode: data, ranks: 4 "
                "}") ==
        "r.yaml:1:22: a batch of 3 cannot be shared by 4 ranks (a larger "
        "batch_size, or fewer ranks)");
  CHECK(problem("deterministic: true\n"
                "parallel: { mode: data, ranks: 2, sync: ps, ps: { "
                "consistency: ssp } }") ==
        "r.yaml:2:64: the result of ssp and async depends on the speed of the "
        "workers; "
        "'deterministic' needs parallel.ps.consistency: sync");
  CHECK(problem("parallel: { mode: data, ps: { bound: 3 } }") ==
        "r.yaml:1:25: 'parallel.ps' has no effect: only for sync: ps (remove "
        "it)");
  CHECK(problem("parallel: { mode: dta }") ==
        "r.yaml:1:19: 'parallel.mode' must be one of none, data, model, "
        "hybrid, but is 'dta', did you mean 'data'?");
}

TEST_CASE("a program has no final training to describe") {
  CHECK(problem("command: x\nfinal: { seeds: 3, candidates: 2 }") ==
        "r.yaml:2:10: 'final.seeds' has no effect: a program's winner is not "
        "trained again; final.candidates repeats the best trials (remove it)");
  const RecipeFile file = parse("command: x\nfinal: { candidates: 2 }");
  CHECK(file.recipe().final_training.candidates == 2);
  CHECK(file.resolved_yaml().find("seeds") == std::string::npos);
  CHECK(parse("command: x\nfinal: false").recipe().command);
}

TEST_CASE("levels of images go with what can train them alone") {
  CHECK(parse("fidelity: data.limit").recipe().fidelity.levels == 4);
  CHECK(parse("fidelity: { kind: data.limit, levels: 6 }")
            .recipe()
            .fidelity.levels == 6);
  CHECK(problem("fidelity: { levels: 6 }") ==
        "r.yaml:1:13: 'fidelity.levels' has no effect: only for kind: "
        "data.limit (remove it)");
  CHECK(problem("fidelity: data.limit\ntrain: { step: epoch }") ==
        "r.yaml:2:10: 'train.step' has no effect: with fidelity: data.limit "
        "each step is a training of its own (remove it)");
  CHECK(problem("fidelity: data.limit\nparallel: { mode: data }") ==
        "r.yaml:2:11: 'fidelity: data.limit' trains every step of a trial from "
        "the start, which 'parallel' cannot do (remove one of the two)");
  CHECK(problem("fidelity: data.limit\nresources: { fused: 4 }") ==
        "r.yaml:2:21: 'fidelity: data.limit' trains every step of a trial from "
        "the start, which 'resources.fused' cannot do (remove one of the two)");
  CHECK(problem("fidelity: data.limit\nsampler: gp") ==
        "r.yaml:1:11: 'fidelity: data.limit' saves nothing with scheduler "
        "fifo, which trains every trial to its last step (take scheduler asha "
        "or freeze-thaw)");
  CHECK(problem("fidelity: data.limit\ncommand: ./train {lr}\n"
                "space: { lr: { linear: [0, 1] } }") ==
        "r.yaml:1:11: 'fidelity' cannot be used together with 'command' (the "
        "program itself can train on more data in each step: DTUNE_STEP says "
        "how many were reported)");
  CHECK(problem("fidelity: data") ==
        "r.yaml:1:11: 'fidelity.kind' must be one of epochs, data.limit, but "
        "is 'data', did you mean 'data.limit'?");
}

TEST_CASE("a word that is not understood gives one message only") {
  const std::string only =
      "'parallel.mode' must be one of none, data, model, hybrid, but is 'dta', "
      "did you mean 'data'?";
  CHECK(problem("parallel: { mode: data, ranks: 2 }", {"parallel.mode=dta"}) ==
        "--set parallel.mode: " + only);
  CHECK(problem("parallel: { mode: dta, ranks: 2, sync: ps }") ==
        "r.yaml:1:19: " + only);
  CHECK(problem("parallel: { mode: data, sync: sp, ps: { bound: 3 } }")
            .starts_with("r.yaml:1:31: 'parallel.sync' must be one of"));
}

TEST_CASE("nodes that cannot be reached are refused") {
  for (const char* port : {"99999", "65536", "0", "", "x", "22x"}) {
    const std::string address = std::string("ssh://me@gpu2:") + port;
    CHECK(problem("nodes: [local, '" + address + " slots=2']") ==
          "r.yaml:1:16: '" + address +
              "' has no port after its ':' (a number from 1 to 65535, or "
              "leave it out)");
  }
  CHECK(problems("nodes: [local, 'ssh://[fe80::1]:65535', 'ssh://[::1]', "
                 "ssh://me@gpu2:1]")
            .empty());
  CHECK(problem("nodes: [local, ssh://gpu1, local slots=2]") ==
        "r.yaml:1:28: 'nodes' names local twice (keep one; its slots=N are all "
        "that this machine gives)");
}

TEST_CASE("a pipeline has no more stages than the model has layers") {
  const std::string rest =
      " stages are more than the model's 11 layers (at most 11, or a deeper "
      "model; a residual block counts as one layer)";
  CHECK(problem("parallel: { mode: model, ranks: 12 }") ==
        "r.yaml:1:33: 'parallel.ranks': 12" + rest);
  CHECK(problem("parallel: { mode: hybrid, data: 2, model: 12 }") ==
        "r.yaml:1:43: 'parallel.model': 12" + rest);
  CHECK(problem("train: { lr: 0.1 }",
                {"parallel.mode=model", "parallel.ranks=50"}) ==
        "--set parallel.ranks: 'parallel.ranks': 50" + rest);
  CHECK(problems("parallel: { mode: model, ranks: 11 }").empty());
  CHECK(problems("parallel: { mode: data, ranks: 12 }").empty());
  CHECK(problem("model: { arch: resnet18x }\nparallel: { mode: model, ranks: "
                "12 }")
            .starts_with("r.yaml:1:16: unknown architecture"));
  CHECK(problem("model: { arch: [cnn-small] }\nparallel: { mode: model, ranks: "
                "12 }") ==
        "r.yaml:1:16: 'model.arch' must be a word, but is a list (what is "
        "tuned goes to space:, as model.arch: {choice: [x, y]})");
  // What is tuned is judged where it is set.
  CHECK(problem("space: { model.arch: { choice: [resnet18, cnn-small] } }\n"
                "parallel: { mode: model, ranks: 12 }") ==
        "r.yaml:1:22: 'model.arch' cannot be cnn-small: 'parallel.ranks': 12" +
            rest);
  CHECK(problems("space: { model.arch: { choice: [resnet18, lenet] } }\n"
                 "parallel: { mode: model, ranks: 12 }")
            .empty());
}

TEST_CASE("wrong types name what is wanted and what is there") {
  CHECK(problem("train: { batch_size: 1.5 }") ==
        "r.yaml:1:22: 'train.batch_size' must be a whole number, but is '1.5'");
  CHECK(problem("train: { lr: [1, 2] }") ==
        "r.yaml:1:14: 'train.lr' must be a number, but is a list (what is "
        "tuned goes to space:, as lr: {log: [a, b]} or {linear: [a, b]})");
  CHECK(problem("model: { width: { int: [4, 8] } }") ==
        "r.yaml:1:17: 'model.width' must be a whole number, but is a section "
        "(what is tuned goes to space:, as model.width: {log: [a, b]} or "
        "{linear: [a, b]})");
  CHECK(problem("train: { lr: '0.1' }") ==
        "r.yaml:1:14: 'train.lr' must be a finite number, but is '0.1'");
  CHECK(problem("deterministic: maybe") ==
        "r.yaml:1:16: 'deterministic' must be true or false, but is 'maybe'");
  CHECK(problem("train: 3") ==
        "r.yaml:1:8: 'train' must be a section of keys (epochs, step, "
        "batch_size, ...), but is '3'");
  CHECK(problem("budget: 10m") ==
        "r.yaml:1:9: 'budget' must be a section of keys (trials, time, steps), "
        "but is '10m'");
  CHECK(problem("train: { lr: }") ==
        "r.yaml:1:14: 'train.lr' must be a number, but is nothing");
  CHECK(problem("train: { betas: [0.9] }") ==
        "r.yaml:1:17: 'train.betas' must be a list of two numbers, but is a "
        "list");
  CHECK(problem("budget: { time: soon }") ==
        "r.yaml:1:17: 'budget.time': 'soon' is not a duration (write 90s, 10m, "
        "1h30m, 2d or a number of seconds)");
  CHECK(problem("resources: { memory: much }") ==
        "r.yaml:1:22: 'resources.memory' must be a size such as 512m or 4g, "
        "but is 'much'");
}

TEST_CASE("a warm start is a list of files, each once") {
  CHECK(problem("warm_start: old.db") ==
        "r.yaml:1:13: 'warm_start' must be a list of words such as [old.db], "
        "but is 'old.db'");
  CHECK(problem("warm_start: [old.db, [a]]") ==
        "r.yaml:1:22: 'warm_start' must be a list of words, but is a list");
  CHECK(problem("warm_start: [a.db, ./a.db]") ==
        "r.yaml:1:20: 'warm_start' names /recipes/a.db twice");
  CHECK(problem("warm_start: ['']") ==
        "r.yaml:1:14: 'warm_start' has an empty name (name the .db file of a "
        "study)");
  CHECK(problem("warmstart: [a.db]") ==
        "r.yaml:1:1: unknown key 'warmstart', did you mean 'warm_start'?");
}

TEST_CASE("numbers that cannot be are refused") {
  CHECK(problem("train: { lr: .nan }") ==
        "r.yaml:1:14: 'train.lr' must be a finite number, but is '.nan'");
  CHECK(problem("train: { lr: inf }") ==
        "r.yaml:1:14: 'train.lr' must be a finite number, but is 'inf'");
  CHECK(problem("train: { lr: 1e999 }") ==
        "r.yaml:1:14: 'train.lr' must be a finite number, but is '1e999'");
  CHECK(problem("seed: 99999999999999999999") ==
        "r.yaml:1:7: 'seed' must be a smaller number, but is "
        "'99999999999999999999'");
  CHECK(problem("seed: 9223372036854775808") ==
        "r.yaml:1:7: 'seed' must be a smaller number, but is "
        "'9223372036854775808'");
  CHECK(problem("seed: -1") ==
        "r.yaml:1:7: 'seed' must be at least 0, but is -1");
  CHECK(problem("train: { momentum: 1 }") ==
        "r.yaml:1:20: 'train.momentum' must be at least 0 and less than 1, but "
        "is 1");
  CHECK(parse("seed: 9223372036854775807").recipe().seed ==
        9223372036854775807ULL);
  CHECK(parse("data: { limit: 1e4 }").recipe().data.limit == 10000);
}

TEST_CASE("what is not YAML says where") {
  CHECK(problem("train: { epochs: 3\nmodel: x").starts_with("r.yaml:"));
  CHECK(problem("train: [1, 2\n") ==
        "r.yaml:2:1: not YAML: end of sequence flow not found (a '[' or its "
        "']' is missing)");
  CHECK(problem("study: abc: def") ==
        "r.yaml:1:11: not YAML: illegal map value (indent the keys of a "
        "section alike, and quote a text that has ': ' in it)");
  CHECK(problem("space: { x: { uniform: [0, 1], key: train.lr } }") ==
        "r.yaml:1:15: 'uniform' is called 'linear' here (write one of {log: "
        "[a, b]}, {linear: [a, b]}, {int: [a, b]}, {choice: [...]} or {bool: "
        "true})");
  CHECK(problem("a: 1\n b: 2").starts_with("r.yaml:2:"));
  CHECK(problem("- 1\n- 2") ==
        "r.yaml:1:1: a recipe is a section of keys, not a list");
  CHECK(problem("") ==
        "r.yaml:1:1: the recipe is empty (`dtune init` writes a "
        "commented one)");
  CHECK(problem("# nothing\n").starts_with("r.yaml:1:1: the recipe is empty"));
}

TEST_CASE("a key that occurs twice names both lines") {
  CHECK(problem("seed: 1\nstudy: x\nseed: 2") ==
        "r.yaml:3:1: key 'seed' occurs twice (first on line 1; keep one)");
  CHECK(problem("slots: 2\nresources: { slots: 3 }") ==
        "r.yaml:1:1: 'slots' is given here and as 'resources.slots' (keep "
        "one)");
}

TEST_CASE("bytes that are not UTF-8 name their place") {
  CHECK(problem("seed: 1\nstudy: a\xff") ==
        "r.yaml:2:9: byte 0xff is not UTF-8 (save the file as UTF-8)");
  CHECK(problem("study: \xc3") ==
        "r.yaml:1:8: byte 0xc3 is not UTF-8 (save the file as UTF-8)");
  CHECK(problem(std::string("study: a\0b", 10)) ==
        "r.yaml:1:9: control character 0x00 (is this a recipe?)");
}

TEST_CASE("columns count characters, not bytes") {
  CHECK(problem("data: { path: 'äöü', kid: 1 }").starts_with("r.yaml:1:22:"));
}

TEST_CASE("a long text that aliases repeat is refused where it is too much") {
  std::string text = "note: &n '" + std::string(100'000, 'x') + "'\nnotes:\n";
  for (int i = 0; i < 2'000; ++i) text += "- *n\n";  // 200 MB
  CHECK(problem(text) ==
        "r.yaml:7:3: more than 1024 KiB of text, aliases expanded (is this a "
        "recipe?)");
  CHECK(problem("note: &n '" + std::string(100'000, 'x') + "'\nnotes: [*n]")
            .find("aliases expanded") == std::string::npos);
}

TEST_CASE("aliases are followed, but not to the end of memory") {
  CHECK(parse("train: &t { lr: 0.1 }\nseed: 1").recipe().train.lr == 0.1);
  CHECK(
      parse("limits: { heartbeat: &h 2s, grace: *h }").recipe().limits.grace ==
      std::chrono::seconds(2));
  std::string bomb = "a: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "b" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 8; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  CHECK(problem(bomb).ends_with(
      "more than 20000 values, aliases expanded (is this a recipe?)"));
}

TEST_CASE("depth, length and tags have limits") {
  CHECK(problem("a: " + std::string(40, '[') + std::string(40, ']')) ==
        "r.yaml:1:34: nested more than 32 levels deep");
  CHECK(problem("a: " + std::string(100000, '[')).find("r.yaml:1:") == 0);
  CHECK(problem(std::string(300000, '#'))
            .starts_with("r.yaml:1:1: 300000 bytes long, but a recipe has at "
                         "most 262144"));
  CHECK(problem("study: !!python/object:os.system x") ==
        "r.yaml:1:8: a recipe has no tags such as "
        "'tag:yaml.org,2002:python/object:os.system' (leave it out)");
  CHECK(problem("seed: 1\n---\nseed: 2")
            .ends_with("a second document starts here (a recipe is one: remove "
                       "the '---')"));
}

TEST_CASE("keys that belong to another kind are distinguished") {
  CHECK(
      parse("data: { kind: npz, path: a.npz, test: 0.3 }").recipe().data.test ==
      0.3);
  CHECK(problem("data: { kind: mnist, path: a, test: 0.3 }") ==
        "r.yaml:1:31: 'data.test' has no effect: only for kind: folder or npz; "
        "other kinds bring a test split (remove it)");
  CHECK(problem("data: { kind: mnist, difficulty: 0.3 }") ==
        "r.yaml:1:22: 'data.difficulty' has no effect: only for kind: "
        "synthetic (remove it)");
  CHECK(problem("model: { arch: resnet18, depth: 28 }") ==
        "r.yaml:1:26: 'model.depth' has no effect: only for arch: wide-resnet "
        "(remove it)");
  CHECK(problem("model: { width: 3, layers: [relu, dropout] }") ==
        "r.yaml:1:10: 'model.width' has no effect: not together with layers: "
        "give each layer its channels (remove it)");
}

TEST_CASE("what data, training and limits need is asked for") {
  CHECK(problem("data: npz") ==
        "r.yaml:1:7: kind: npz needs a path (data.path: the .npz file)");
  CHECK(problem("data: { validation: 0 }") ==
        "r.yaml:1:21: 'data.validation' must be more than 0: without a "
        "validation split nothing can be compared");
  CHECK(problem("train: { schedule: step }") ==
        "r.yaml:1:20: schedule: step needs the epochs at which the rate falls "
        "(milestones: [6, 9])");
  CHECK(problem("train: { nesterov: true, momentum: 0 }") ==
        "r.yaml:1:20: nesterov needs a momentum above 0");
  CHECK(problem("train: { device: gpu }") ==
        "r.yaml:1:18: 'train.device' must be one of auto, cpu, cuda, cuda:0, "
        "cuda:1, ..., but is 'gpu', did you mean 'cuda'?");
  CHECK(problem("train: { device: cpu, precision: tf32 }") ==
        "r.yaml:1:34: 'train.precision': tf32 is a GPU's, but train.device is "
        "cpu (use auto, fp32 or bf16)");
  CHECK(problem("train: { precision: bf61 }")
            .starts_with("r.yaml:1:21: 'train.precision' must be one of auto, "
                         "fp32, tf32, bf16, "
                         "but is 'bf61'"));
  CHECK(problem("limits: { lease: 1s }") ==
        "r.yaml:1:18: 'limits.lease' must be at least two heartbeats, or a "
        "slot is lost by one late message");
  CHECK(problem("study: a/b") ==
        "r.yaml:1:8: 'study' must be a name of 1 to 64 letters, digits, '_', "
        "'-' and '.'");
}

TEST_CASE("metrics and expectations are checked before anything is spent") {
  CHECK(problem("objective: val_acuracy") ==
        "r.yaml:1:12: unknown metric 'val_acuracy', did you mean "
        "'val_accuracy'?");
  CHECK(problem("objective: accuracy") ==
        "r.yaml:1:12: unknown metric 'accuracy', did you mean "
        "'val_accuracy'?");
  CHECK(problem("objective: test_auc") ==
        "r.yaml:1:12: 'test_auc' cannot be the objective: the test split is "
        "evaluated once, at the end (use val_auc)");
  CHECK(
      problem("objective: speed")
          .ends_with(
              "unknown metric 'speed' (known: val_accuracy, val_loss, val_auc, "
              "train_loss, train_accuracy)"));
  CHECK(problem("expect: { test_acc: '> 0.5' }")
            .starts_with("r.yaml:1:11: unknown metric 'test_acc'"));
  CHECK(problem("expect: { val_accuracy: 0.9 }") ==
        "r.yaml:1:25: 'expect.val_accuracy' must be a comparison such as \">= "
        "0.90\", but is '0.9'");
  CHECK(problem("expect: { val_accuracy: '>= high' }")
            .ends_with("but is '>= high'"));
  CHECK(problem("expect: { trails: '>= 3' }") ==
        "r.yaml:1:11: unknown metric 'trails', did you mean 'trials'?");
  CHECK(problem("final: false\nexpect: { test_auc: '> 0.5' }") ==
        "r.yaml:2:21: 'test_auc' is measured after the final training, which "
        "'final.enabled' leaves out (use val_auc, or remove 'final.enabled')");
}

TEST_CASE("a command and a model exclude each other") {
  CHECK(
      problem("command: x\ntrain: { epochs: 3 }") ==
      "r.yaml:2:1: 'train' cannot be used together with 'command' (the program "
      "trains; remove one of the two)");
  CHECK(problem("command: ''") ==
        "r.yaml:1:10: 'command' names no program (write command: python "
        "train.py --lr {lr})");
  CHECK(problem("command: x 'y") ==
        "r.yaml:1:10: the command's ' is not closed");
  CHECK(problem("command: x {lrr}\nspace: { lr: { log: [1e-3, 1] } }") ==
        "r.yaml:1:10: the command's {lrr} is not a parameter, did you mean "
        "'lr'?");
  CHECK(problem("command: x {lr}\nspace: { lr: { log: [1, 1e-3] } }") ==
        "r.yaml:2:14: space.lr: the range [1, 0.001] is reversed (write "
        "[0.001, 1])");
  CHECK(problem("command: x {}\nspace: { lr: { log: [1e-3, 1] } }") ==
        "0 problems");
}

TEST_CASE("a program's objective is a word that it can print") {
  for (const char* metric : {"val loss", "a=b", "step"}) {
    CHECK(problem(fmt::format("command: x\nobjective: '{}'", metric)) ==
          fmt::format("r.yaml:2:12: a program cannot report '{}' (name a "
                      "metric without blanks and '='; 'step' is the step's "
                      "number)",
                      metric));
    CHECK(problem(fmt::format("command: none\nobjective: '{}'", metric)) ==
          "0 problems");
  }
}

TEST_CASE("a command's words name parameters, or hold braces of their own") {
  const auto of = [](const std::string& run) {
    return problem("command: { run: " + run +
                   " }\nspace: { lr: { log: [1e-3, 1] } }");
  };
  const std::string unknown =
      "r.yaml:1:17: the command's {units} is not a parameter (there are: lr; "
      "where the program is to get braces, write { units })";
  CHECK(of("[x, '{lr}', '{units}']") == unknown);
  CHECK(of("[x, '{lr}', '--units={units}']") == unknown);
  for (const char* run :
       {"[awk, '{print $1}']", "[awk, '{ print }']", "[x, 'run_{epoch}.ckpt']",
        "[sh, -c, 'awk {print} < ${LR}']", "[curl, -w, '%{http_code}']",
        R"([x, '{"a": 1}'])", "[x, '{{units}}']", "[x, '${units}']"}) {
    CHECK_MESSAGE(of(run) == "0 problems", run);
  }
  CHECK(
      of("[sh, -c, 'train ${lr}']") ==
      "r.yaml:1:17: the command's ${lr} is both a variable of a shell and the "
      "value of {lr} (write {lr}, or $DTUNE_PARAM_LR)");
}

TEST_CASE("two parameters with one variable of a command are an error") {
  CHECK(problem("command: x\nspace: { a.b: { log: [1e-3, 1] }, a-b: { log: "
                "[1e-3, 1] } }") ==
        "r.yaml:2:40: 'a.b' and 'a-b' are both the variable DTUNE_PARAM_A_B of "
        "the program (rename one)");
}

TEST_CASE("layers that do not fit are named with their line") {
  CHECK(problem(R"(
layers:
  - conv: 32
  - max_pool: 2
  - max_pool: 2
  - conv: { channels: 64, kernel: 9, padding: 0, name: wide }
)") == "r.yaml:6:5: layer 'wide': kernel 9 does not fit its input 32x7x7 (use "
       "padding: 1 or a smaller kernel)");
  CHECK(problem("layers: [flatten, conv: 8]") ==
        "r.yaml:1:19: layer 'conv1': needs an image, but its input is flat "
        "(784) (move it before flatten and linear)");
  CHECK(problem("layers: [cov: 8]") ==
        "r.yaml:1:10: unknown entry 'cov' in model.layers, did you mean "
        "'conv'?");
  CHECK(problem("layers: [conv: { channels: 8, kernle: 3 }]") ==
        "r.yaml:1:31: unknown key 'kernle' in model.layers.conv1, did you mean "
        "'kernel'?");
  CHECK(problem("layers: [conv: 8, [relu]]") ==
        "r.yaml:1:19: 'model.layers' must be a list such as [conv: 32, relu], "
        "but is a list");
  CHECK(problem("layers: [conv: {name: a, channels: 8}, linear: {name: a, "
                "channels: 9}]")
            .ends_with("layer 'a': two layers have this name"));
  CHECK(problem("layers: [conv]")
            .starts_with("r.yaml:1:10: layer 'conv1': has no output channels"));
  CHECK(problem("layers: [linear: classes]") ==
        "r.yaml:1:18: 'model.layers.linear1.channels' must be a whole number, "
        "but is 'classes' (leave it out for the classes: that layer is added "
        "at the end)");
  CHECK(problem("layers: [relu: 3]") ==
        "r.yaml:1:16: 'relu' in model.layers takes no such value (only its "
        "name, or {its fields})");
}

TEST_CASE("a list of layers is not empty and its names are plain") {
  CHECK(problem("layers: []") ==
        "r.yaml:1:9: 'layers' is empty (list some, or name an arch)");
  CHECK(problem("layers: [conv: {channels: 8, name: a.b}]") ==
        "r.yaml:1:10: a layer's name is 1 to 64 letters, digits, '_' and '-'");
}

TEST_CASE("a key's place is known after reading") {
  const RecipeFile file = parse("sampler: sobl\nseed: 1", {"slots=2"});
  const auto found = [&](const std::string& key) {
    return std::string(file.problem(key, "is wrong").what());
  };
  CHECK(found("sampler.kind") ==
        "r.yaml:1:10: is wrong\n  sampler: sobl\n           ^");
  CHECK(found("resources.slots") == "--set slots: is wrong");
  CHECK(found("scheduler.kind").starts_with("r.yaml:1:1: is wrong"));
}

TEST_CASE("an override names itself in its errors") {
  CHECK(problem("seed: 1", {"train.epochs=many"}) ==
        "--set train.epochs: 'train.epochs' must be a finite number, but is "
        "'many'");
  CHECK(problem("seed: 1", {"train.epocs=3"}) ==
        "--set train.epocs: unknown key 'epocs' in train, did you mean "
        "'epochs'?");
  CHECK(problem("seed: 1", {"slots="}) ==
        "--set slots: 'resources.slots' must be a whole number, but is "
        "nothing");
  CHECK(problem("seed: 1", {"seed.x=3"}) ==
        "--set seed.x: 'seed' is '1', not a section");
  CHECK(problem("seed: 1", {"train.=3"}) ==
        "--set train.: a key needs a word on each side of every dot");
  CHECK(
      problem("seed: 1", {"train.lr=[1"}) ==
      "--set train.lr: the value '[1' is not valid YAML (a key must be a word, "
      "not a list; is its ']' missing?)");
  CHECK(problem("layers: [relu]", {"model.layers.conv9.channels=3"}) ==
        "--set model.layers.conv9.channels: no layer is called 'conv9'");
  CHECK_THROWS_WITH_AS(parse_override("train.epochs"),
                       "--set train.epochs: no '=' (write --set "
                       "train.epochs=4)",
                       Error);
  CHECK_THROWS_WITH_AS(parse_override("=4"),
                       "--set =4: no key before '=' (write --set "
                       "train.epochs=4)",
                       Error);
}

}  // namespace
}  // namespace dtune
