#include "dtune/config/schema.h"

#include <fmt/format.h>

#include "dtune/base/text.h"
#include "dtune/config/layer_list.h"
#include "dtune/config/writer.h"
#include "dtune/study/slots.h"
#include "dtune/study/study.h"

namespace dtune {

namespace {

constexpr double kMaxSide = 8192;
constexpr double kMostRanks = 1024;  // of one trial

// FinalData as a word; the type has no use for one elsewhere.
const std::vector<std::string>& final_data_words() {
  static const std::vector<std::string> words = {"train", "train+validation"};
  return words;
}

void describe_augment(Fields& f, Augmentation& augment) {
  // Those that came later are not written where they are off: the hashes of
  // older studies stay what they were.
  const auto asked = [&f](double value) { return f.reading() || value > 0; };
  constexpr double kMostAlpha = 1;
  f.flag("flip", augment.flip);
  f.integer("shift", augment.shift, between(0, 64));
  if (asked(augment.crop)) f.integer("crop", augment.crop, between(0, 64));
  if (asked(augment.cutout)) {
    f.integer("cutout", augment.cutout, between(0, kMaxSide));
  }
  if (asked(augment.jitter)) f.real("jitter", augment.jitter, between(0, 1));
  if (asked(augment.mixup)) {
    f.real("mixup", augment.mixup, between(0, kMostAlpha));
  }
  if (asked(augment.cutmix)) {
    f.real("cutmix", augment.cutmix, between(0, kMostAlpha));
  }
}

void describe_data(Fields& f, DataSpec& data) {
  f.choice("kind", data.kind, DataKind::synthetic);
  f.text("path", data.path);
  f.real("validation", data.validation, at_least(0));
  f.real("test", data.test, at_least(0));
  f.integer("split_seed", data.split_seed, at_least(0));
  f.integer("limit", data.limit, at_least(0));
  f.flag("normalize", data.normalize);
  double height = data.height;
  double width = data.width;
  f.pair("size", height, width, between(0, kMaxSide));
  data.height = static_cast<int>(height);
  data.width = static_cast<int>(width);
  f.flag("gray", data.gray);
  f.section("augment",
            [&](Fields& inside) { describe_augment(inside, data.augment); });
  f.integer("classes", data.classes, between(2, 10000));
  f.integer("channels", data.channels, between(1, 4));
  f.integer("samples", data.samples, between(20, 1e7));
  f.real("difficulty", data.difficulty, between(0, 1));
  f.flag("balance", data.balance);
}

void describe_model(Fields& f, ModelSpec& model) {
  f.text("arch", model.arch);
  f.integer("width", model.width, between(0, 4096));
  f.integer("depth", model.depth, between(0, 1000));
  f.real("dropout", model.dropout, up_to_below(0, 1));
  describe_layers(f, "layers", model.layers);
}

void describe_schedule(Fields& f, ScheduleSpec& schedule) {
  f.choice("kind", schedule.kind, ScheduleKind::cosine);
  f.real("warmup", schedule.warmup, at_least(0));
  f.real("gamma", schedule.gamma, {.low = 0, .high = 1, .above = true});
  f.reals("milestones", schedule.milestones, more_than(0));
  f.real("floor", schedule.floor, between(0, 1));
}

void describe_train(Fields& f, TrainSpec& train) {
  f.real("epochs", train.epochs, {.low = 0, .high = 1e6, .above = true});
  f.section("step", [&](Fields& inside) {
    inside.integer("samples", train.step_samples, at_least(0));
  });
  f.integer("batch_size", train.batch_size, between(1, 65536));
  f.choice("optimizer", train.optimizer, OptimizerKind::adamw);
  f.real("lr", train.lr, more_than(0));
  f.real("l2", train.l2, at_least(0));
  f.flag("l2_on_all", train.l2_on_all);
  f.real("momentum", train.momentum, up_to_below(0, 1));
  f.flag("nesterov", train.nesterov);
  f.pair("betas", train.beta1, train.beta2, up_to_below(0, 1));
  f.real("clip_norm", train.clip_norm, at_least(0));
  if (f.reading() || train.ema > 0) {  // as in describe_augment
    f.real("ema", train.ema, up_to_below(0, 1));
  }
  f.section("schedule",
            [&](Fields& inside) { describe_schedule(inside, train.schedule); });
  f.choice("loss", train.loss, LossKind::focal);
  f.real("label_smoothing", train.label_smoothing, up_to_below(0, 1));
  f.real("focal_gamma", train.focal_gamma, between(0, 100));
  f.text("device", train.device);
  if (f.reading() || train.precision != Precision::automatic) {
    f.choice("precision", train.precision, Precision::bf16);
  }
}

void describe_command(Fields& f, CommandSpec& command) {
  f.texts("run", command.argv);
  f.integer("steps", command.steps, at_least(0));
  f.text("directory", command.directory);
  f.text_map("environment", command.environment);
}

bool ends_with_any(const std::string& text,
                   const std::vector<std::string>& ends) {
  for (const std::string& end : ends) {
    if (text.ends_with(end)) return true;
  }
  return false;
}

// Of a metric whose goal is not given.
Goal usual_goal(const std::string& metric) {
  const bool less = ends_with_any(
      lower_case(metric), {"loss", "error", "err", "error_rate", "mse", "mae",
                           "mape", "nll", "perplexity", "latency", "cost",
                           "_time", "_ms", "_seconds", "_bytes", "parameters"});
  return less ? Goal::minimize : Goal::maximize;
}

// "latency_ms", "maximize throughput".
TradeOff parse_trade_off(const std::string& text) {
  for (const Goal goal : {Goal::maximize, Goal::minimize}) {
    const std::string start = std::string(to_string(goal)) + " ";
    if (text.starts_with(start)) return {text.substr(start.size()), goal};
  }
  return {text, usual_goal(text)};
}

void describe_trade_offs(Fields& f, std::vector<TradeOff>& trade_offs) {
  if (!f.reading() && trade_offs.empty()) return;
  std::vector<std::string> texts;
  texts.reserve(trade_offs.size());
  for (const TradeOff& one : trade_offs) {
    texts.push_back(fmt::format("{} {}", to_string(one.goal), one.metric));
  }
  f.texts("trade_off", texts);
  trade_offs.clear();
  for (const std::string& text : texts) {
    trade_offs.push_back(parse_trade_off(text));
  }
}

void describe_objective(Fields& f, ObjectiveSpec& objective) {
  f.text("metric", objective.metric);
  // A loss without a goal is minimized.
  if (f.reading()) {
    objective.goal = usual_goal(objective.metric);
  }
  f.choice("goal", objective.goal, Goal::minimize);
  describe_trade_offs(f, objective.trade_offs);
}

void describe_fidelity(Fields& f, FidelitySpec& fidelity) {
  f.choice("kind", fidelity.kind, FidelityKind::data_limit);
  f.integer("levels", fidelity.levels, between(2, 12));
}

void describe_budget(Fields& f, BudgetSpec& budget) {
  f.integer("trials", budget.trials, at_least(0));
  f.duration("time", budget.time);
  f.integer("steps", budget.steps, at_least(0));
}

void describe_stop(Fields& f, StopSpec& stop) {
  double target = stop.target.value_or(0);
  if (f.reading() || stop.target) f.real("target", target, {});
  if (f.has("target")) stop.target = target;
  f.real("gain", stop.gain, at_least(0));
  f.real("chance", stop.chance, {.low = 0, .high = 1, .above = true});
}

bool stops(const StopSpec& stop) { return stop.target || stop.gain > 0; }

void describe_surrogate(Fields& f, SurrogateSpec& surrogate) {
  f.text("prior", surrogate.prior);
  f.text("network", surrogate.network);
}

bool has_weights(const SurrogateSpec& surrogate) {
  return !surrogate.prior.empty() || !surrogate.network.empty();
}

void describe_limits(Fields& f, LimitsSpec& limits) {
  f.duration("trial_time", limits.trial_time);
  f.duration("step_time", limits.step_time);
  f.duration("heartbeat", limits.heartbeat);
  f.duration("lease", limits.lease);
  f.duration("grace", limits.grace);
  f.integer("retries", limits.retries, between(0, 1000));
  f.duration("full_disk", limits.full_disk);
  f.choice("failed_results", limits.failed_results, FailedResults::use);
}

void describe_resources(Fields& f, ResourcesSpec& resources) {
  f.integer("slots", resources.slots, between(0, kMaxSlots));
  f.integer("threads_per_slot", resources.threads_per_slot, between(1, 1024));
  f.memory("memory", resources.memory_mb);
  f.integer("warm_trials", resources.warm_trials, between(0, 1e6));
  f.memory("disk", resources.disk_mb);
  std::string fused = fused_word(resources.fused);
  if (f.reading() || resources.fused != 1) f.text("fused", fused);
  // The checks refuse -1.
  if (f.reading()) resources.fused = parse_fused(fused).value_or(-1);
}

void describe_servers(Fields& f, ParameterServerSpec& ps) {
  f.integer("servers", ps.servers, between(1, 64));
  f.choice("consistency", ps.consistency, Consistency::async);
  f.integer("bound", ps.bound, between(0, 1000));
  f.integer("discard", ps.discard, between(0, 100000));
  f.choice("staleness_lr", ps.staleness_lr, StalenessRule::none);
  f.choice("compensation", ps.compensation, Compensation::adaptive);
  f.real("lambda", ps.lambda, between(0, 100));
}

void describe_pipeline(Fields& f, PipelineSpec& pipeline) {
  f.integer("micro_batches", pipeline.micro_batches, between(0, 4096));
  f.choice("schedule", pipeline.schedule, PipelineSchedule::gpipe);
  f.flag("recompute", pipeline.recompute);
}

void describe_parallel(Fields& f, ParallelSpec& parallel) {
  f.choice("mode", parallel.mode, ParallelMode::hybrid);
  // Several ranks without a number are two.
  constexpr int kDefaultRanks = 2;
  if (f.reading() && parallel.mode != ParallelMode::none) {
    parallel.ranks = parallel.data = parallel.model = kDefaultRanks;
  }
  f.integer("ranks", parallel.ranks, between(1, kMostRanks));
  f.integer("data", parallel.data, between(1, kMostRanks));
  f.integer("model", parallel.model, between(1, kMostRanks));
  if (parallel.mode == ParallelMode::hybrid) {
    parallel.ranks = parallel.data * parallel.model;
  }
  f.choice("sync", parallel.sync, SyncKind::ps);
  f.choice("stragglers", parallel.stragglers, StragglerPolicy::off);
  f.choice("predictor", parallel.predictor, PredictorKind::last);
  f.flag("overlap", parallel.overlap);
  f.real("bucket_mb", parallel.bucket_mb,
         {.low = 0, .high = 4096, .above = true});
  f.section("ps", [&](Fields& in) { describe_servers(in, parallel.ps); });
  f.section("pipeline",
            [&](Fields& in) { describe_pipeline(in, parallel.pipeline); });
}

// "ssh://gpu1 slots=4"; what cannot be read stays in the address, where the
// check finds it.
NodeSpec parse_node(const std::string& text) {
  NodeSpec node;
  const size_t space = text.find(' ');
  node.address = text.substr(0, space);
  if (space == std::string::npos) return node;
  const std::string rest = text.substr(text.find_first_not_of(' ', space));
  constexpr std::string_view kSlots = "slots=";
  if (rest.starts_with(kSlots)) {
    node.slots = parse_number<int>(rest.substr(kSlots.size())).value_or(0);
    if (node.slots > 0) return node;
  }
  return {text, 0};
}

void describe_nodes(Fields& f, std::vector<NodeSpec>& nodes) {
  std::vector<std::string> texts;
  texts.reserve(nodes.size());
  for (const NodeSpec& node : nodes) {
    texts.push_back(node.slots == 0
                        ? node.address
                        : fmt::format("{} slots={}", node.address, node.slots));
  }
  f.texts("nodes", texts);
  nodes.clear();
  for (const std::string& text : texts) nodes.push_back(parse_node(text));
}

void describe_final(Fields& f, FinalSpec& final_training) {
  f.flag("enabled", final_training.enabled);
  auto index = static_cast<size_t>(final_training.data);
  f.word("data", index, final_data_words());
  final_training.data = static_cast<FinalData>(index);
  f.real("epochs", final_training.epochs, between(0, 1e6));
  f.integer("seeds", final_training.seeds, between(1, 1000));
  f.integer("candidates", final_training.candidates, between(1, 100));
  f.choice("keep", final_training.keep, FinalKeep::last);
  f.choice("threshold", final_training.threshold, ThresholdRule::balanced);
}

}  // namespace

void describe_recipe(Fields& f, Recipe& recipe) {
  f.text("study", recipe.study);
  f.integer("seed", recipe.seed, at_least(0));
  f.flag("deterministic", recipe.deterministic);
  if (f.has("command") && !recipe.command) recipe.command.emplace();
  if (recipe.command) {
    f.section("command",
              [&](Fields& in) { describe_command(in, *recipe.command); });
  } else {
    f.section("data", [&](Fields& in) { describe_data(in, recipe.data); });
    f.section("model", [&](Fields& in) { describe_model(in, recipe.model); });
    f.section("train", [&](Fields& in) { describe_train(in, recipe.train); });
  }
  f.section("objective",
            [&](Fields& in) { describe_objective(in, recipe.objective); });
  f.section("sampler", [&](Fields& in) {
    in.text("kind", recipe.sampler.kind);
    in.options(recipe.sampler.options);
  });
  if (f.reading()) {
    recipe.scheduler.kind = default_scheduler(recipe.sampler.kind);
  }
  f.section("scheduler", [&](Fields& in) {
    in.text("kind", recipe.scheduler.kind);
    in.options(recipe.scheduler.options);
  });
  // Not written where it is usual or empty: the hashes of older studies stay
  // what they were.
  if (f.reading() || recipe.fidelity.kind != FidelityKind::epochs) {
    f.section("fidelity",
              [&](Fields& in) { describe_fidelity(in, recipe.fidelity); });
  }
  if (f.reading() || !recipe.warm_start.empty()) {
    f.texts("warm_start", recipe.warm_start);
  }
  if (f.reading() || has_weights(recipe.surrogate)) {
    f.section("surrogate",
              [&](Fields& in) { describe_surrogate(in, recipe.surrogate); });
  }
  // Without a word on the budget a study still ends.
  constexpr int kDefaultTrials = 40;
  if (f.reading() && !f.has("budget")) recipe.budget.trials = kDefaultTrials;
  f.section("budget", [&](Fields& in) { describe_budget(in, recipe.budget); });
  if (f.reading() || stops(recipe.stop)) {
    f.section("stop", [&](Fields& in) { describe_stop(in, recipe.stop); });
  }
  f.section("limits", [&](Fields& in) { describe_limits(in, recipe.limits); });
  f.section("resources",
            [&](Fields& in) { describe_resources(in, recipe.resources); });
  // Neither is written where it says nothing, as with warm_start.
  if (f.reading() || recipe.parallel.mode != ParallelMode::none) {
    f.section("parallel",
              [&](Fields& in) { describe_parallel(in, recipe.parallel); });
  }
  if (f.reading() || !recipe.nodes.empty()) describe_nodes(f, recipe.nodes);
  f.section("final",
            [&](Fields& in) { describe_final(in, recipe.final_training); });
}

const std::vector<std::string>& recipe_keys() {
  static const std::vector<std::string> keys = [] {
    YamlNode tree = YamlNode::map();
    const std::set<std::string> nothing;
    Recipe recipe;
    Writer writer(tree, "", nothing);
    describe_recipe(writer, recipe);
    recipe.parallel.mode = ParallelMode::data;
    recipe.fidelity.kind = FidelityKind::data_limit;
    describe_recipe(writer, recipe);
    recipe.command.emplace();
    describe_recipe(writer, recipe);
    std::vector<std::string> all = leaf_keys(tree);
    for (const char* more : {"model.layers",
                             "command.environment",
                             "space",
                             "constraints",
                             "expect",
                             "warm_start",
                             "nodes",
                             "points",
                             "require",
                             "objective.trade_off",
                             "stop.target",
                             "stop.gain",
                             "stop.chance",
                             "surrogate.prior",
                             "surrogate.network",
                             "data.augment.crop",
                             "data.augment.cutout",
                             "data.augment.jitter",
                             "data.augment.mixup",
                             "data.augment.cutmix",
                             "train.ema",
                             "train.precision"}) {
      all.emplace_back(more);
    }
    return all;
  }();
  return keys;
}

std::vector<IdleKey> idle_keys(const Recipe& recipe) {
  std::vector<IdleKey> idle;
  if (recipe.command) {
    for (const char* key : {"final.data", "final.epochs", "final.seeds",
                            "final.threshold", "final.keep"}) {
      idle.push_back({key,
                      "a program's winner is not trained again; "
                      "final.candidates repeats the best trials"});
    }
    return idle;
  }
  const auto add = [&](bool used, const char* key, const char* reason) {
    if (!used) idle.push_back({key, reason});
  };
  const bool levels = trains_levels(recipe);
  add(levels, "fidelity.levels", "only for kind: data.limit");
  add(!levels, "train.step",
      "with fidelity: data.limit each step is a training of its own");
  const ParallelMode mode = recipe.parallel.mode;
  const bool data = mode == ParallelMode::data;
  const bool servers = data && recipe.parallel.sync == SyncKind::ps;
  const bool hybrid = mode == ParallelMode::hybrid;
  add(!hybrid, "parallel.ranks", "hybrid has data x model ranks");
  add(hybrid, "parallel.data", "only for mode: hybrid");
  add(hybrid, "parallel.model", "only for mode: hybrid");
  add(data, "parallel.sync", "only for mode: data");
  add(data && !servers, "parallel.overlap", "only for sync: allreduce");
  add(servers, "parallel.ps", "only for sync: ps");
  add(mode == ParallelMode::model || hybrid, "parallel.pipeline",
      "only for mode: model or hybrid");
  const DataKind kind = recipe.data.kind;
  const bool synthetic = kind == DataKind::synthetic;
  const bool folder = kind == DataKind::folder;
  for (const char* key :
       {"data.classes", "data.channels", "data.samples", "data.difficulty"}) {
    add(synthetic, key, "only for kind: synthetic");
  }
  add(!synthetic, "data.path", "not for kind: synthetic, which has no files");
  add(folder || synthetic, "data.size", "only for kind: folder or synthetic");
  add(folder, "data.gray", "only for kind: folder");
  add(folder || kind == DataKind::npz, "data.test",
      "only for kind: folder or npz; other kinds bring a test split");
  const bool layers = !recipe.model.layers.empty();
  add(!layers, "model.arch",
      "not together with layers, which define the whole model");
  add(!layers, "model.width",
      "not together with layers: give each layer its channels");
  add(!layers && recipe.model.arch == "wide-resnet", "model.depth",
      "only for arch: wide-resnet");
  return idle;
}

}  // namespace dtune
