// dtune speeds: make the weights of the speed predictor, or judge predictors.

#include <algorithm>
#include <filesystem>
#include <memory>

#include "app/command.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/suggest.h"
#include "dtune/pretrain/speed_trainer.h"
#include "dtune/speed/speed_judge.h"
#include "dtune/speed/speed_traces.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

struct SpeedsOptions {
  std::string action;
  std::string output;
  std::string weights;
  std::vector<std::string> traces;
  std::optional<uint64_t> samples;
  std::optional<uint64_t> gangs;
  std::optional<uint64_t> ranks;
  std::optional<uint64_t> seed;
};

[[noreturn]] void fail_speeds(const std::string& text) {
  throw Error(ErrorKind::config,
              "dtune speeds " + text + " (see dtune speeds --help)");
}

std::vector<std::vector<double>> read_traces(const SpeedsOptions& options) {
  std::vector<std::vector<double>> traces;
  for (const std::string& path : options.traces) {
    for (std::vector<double>& trace : read_speed_traces(path)) {
      traces.push_back(std::move(trace));
    }
  }
  return traces;
}

std::string provenance(const SpeedsOptions& options,
                       const SpeedTrainOptions& train) {
  std::string text = "dtune speeds train";
  for (const std::string& path : options.traces) {
    text += " --traces " + std::filesystem::path(path).filename().string();
  }
  return text +
         fmt::format(" --samples {} --seed {}", train.samples, train.seed);
}

int train_speeds(const Console& console, const SpeedsOptions& options) {
  if (options.output.empty()) fail_speeds("train: needs --output FILE");
  SpeedTrainOptions train;
  if (options.samples) train.samples = static_cast<int64_t>(*options.samples);
  train.seed = options.seed.value_or(train.seed);
  train.recorded = read_traces(options);
  train.progress = [&](const SpeedTrainProgress& p) {
    console.notice(
        fmt::format("{:>8}/{} traces  loss {:.4f}, of other traces {:.4f}",
                    p.samples, p.of, p.loss, p.validation));
  };
  const SpeedLstm network = load_engine().train_speed_predictor(train);
  network.save(options.output, provenance(options, train));
  console.notice(
      fmt::format("wrote {}: {} traces", options.output, train.samples));
  return kExitOk;
}

double efficiency_of(const std::vector<SpeedJudgement>& rows,
                     const std::string& slowness, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const SpeedJudgement& row) {
        return row.slowness == slowness && row.predictor == name;
      });
  return found == rows.end() ? 0 : found->efficiency;
}

// Kinds of slowness on which another than `name` is the best, with that one.
std::vector<std::string> beaten_on(const std::vector<SpeedJudgement>& rows,
                                   const std::string& name) {
  std::vector<std::string> kinds;
  for (const Slowness slowness : kSlownesses) {
    const std::string kind = to_string(slowness);
    std::string best = name;
    for (const SpeedJudgement& row : rows) {
      if (row.slowness == kind &&
          row.efficiency > efficiency_of(rows, kind, best)) {
        best = row.predictor;
      }
    }
    if (best != name)
      kinds.push_back(fmt::format("{} ({} is better)", kind, best));
  }
  return kinds;
}

// What follows from the rows, in one line.
std::string verdict_of(const std::vector<SpeedJudgement>& rows) {
  const std::string standard = to_string(ParallelSpec().predictor);
  const std::string best = best_predictor(rows);
  std::string text = fmt::format(
      "best of all: {} ({:.4f}; even {:.4f}, last {:.4f}, ema {:.4f}, period "
      "{:.4f}, lstm {:.4f})",
      best, efficiency_of(rows, "all", best),
      efficiency_of(rows, "all", "even"), efficiency_of(rows, "all", "last"),
      efficiency_of(rows, "all", "ema"), efficiency_of(rows, "all", "period"),
      efficiency_of(rows, "all", "lstm"));
  text += best == standard
              ? ", which is the default"
              : fmt::format("; the default, {}, does not win", standard);
  const std::vector<std::string> beaten = beaten_on(rows, best);
  if (!beaten.empty()) {
    text += fmt::format("; but not on {}", fmt::join(beaten, ", "));
  }
  return text;
}

std::string table_of(const std::vector<SpeedJudgement>& rows) {
  std::string text = fmt::format("{:<12}{:<12}{:>10}{:>14}\n", "slowness",
                                 "predictor", "error", "of the ideal");
  for (const SpeedJudgement& row : rows) {
    const bool even = row.predictor == "even";
    text += fmt::format("{:<12}{:<12}{:>10}{:>14.4f}\n",
                        even ? row.slowness : "", row.predictor,
                        even ? "" : fmt::format("{:.4f}", row.log_error),
                        row.efficiency);
  }
  return text +
         "error: mean |log predicted - log true speed| of slowed ranks. Of the "
         "ideal:\nthroughput over that with the next speeds known; even: "
         "shares never change.\n" +
         verdict_of(rows) + "\n";
}

std::string json_of(const std::vector<SpeedJudgement>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SpeedJudgement& row : rows) {
    list.push_back({{"slowness", row.slowness},
                    {"predictor", row.predictor},
                    {"log_error", row.log_error},
                    {"efficiency", row.efficiency}});
  }
  nlohmann::ordered_json document;
  document["rows"] = std::move(list);
  document["best"] = best_predictor(rows);
  document["default"] = to_string(ParallelSpec().predictor);
  return json_text(document, 2) + "\n";
}

int eval_speeds(const Console& console, const SpeedsOptions& options) {
  const SpeedLstm network = options.weights.empty()
                                ? shipped_speed_lstm()
                                : SpeedLstm::load(options.weights);
  SpeedJudgeOptions judged;
  if (options.gangs) judged.gangs = static_cast<int>(*options.gangs);
  if (options.ranks) judged.ranks = static_cast<int>(*options.ranks);
  judged.seed = options.seed.value_or(judged.seed);
  const std::vector<SpeedJudgement> rows =
      judge_speeds(network, read_traces(options), judged);
  console.print(console.json ? json_of(rows) : table_of(rows));
  return kExitOk;
}

int run_speeds(const Console& console, const SpeedsOptions& options) {
  static const std::vector<std::string> actions = {"train", "eval"};
  if (options.action == "train") return train_speeds(console, options);
  if (options.action == "eval") return eval_speeds(console, options);
  fail_speeds(fmt::format("cannot '{}'{}", options.action,
                          did_you_mean(options.action, actions)));
}

}  // namespace

Action declare_speeds(Arguments& arguments) {
  auto options = std::make_shared<SpeedsOptions>();
  SpeedsOptions& o = *options;
  arguments.describe(
      "Makes the weights of the network that predicts how fast a rank will be "
      "in its next round, from synthetic traces of slowness and, if given, "
      "recorded ones (train); or says how well that network, a moving average "
      "and the last value predict, and what it costs a gang of ranks whose "
      "shares of a batch follow the predictions (eval). The same seed makes "
      "the same weights with the same LibTorch.");
  arguments.positional("ACTION", o.action, "train or eval.", Complete::words,
                       true, {"train", "eval"});
  arguments.option("--output", o.output, "FILE",
                   "train: write the weights here (safetensors).",
                   Complete::file);
  arguments.option("--samples", o.samples, "N",
                   "train: on this many traces (default: 24000, a minute).",
                   {1, 100'000'000});
  arguments.option(
      "--traces", o.traces, "FILE",
      "A recorded trace, one speed a line, or what --trace wrote: "
      "of each rank; may be repeated. train learns from them, too; "
      "eval judges on them, too.");
  arguments.option("--weights", o.weights, "FILE",
                   "eval: the weights to judge (default: the shipped ones).",
                   Complete::model);
  arguments.option("--gangs", o.gangs, "N",
                   "eval: traces of each kind of slowness (default: 40).",
                   {1, 100'000});
  arguments.option("--ranks", o.ranks, "N", "eval: of a gang (default: 4).",
                   {2, 64});
  arguments.option("--seed", o.seed, "N", "Default: train 1, eval 1000.",
                   kAnySeed);
  arguments.json("eval: the table as JSON.");
  arguments.example("dtune speeds eval",
                    "how well the shipped weights predict");
  arguments.example(
      "dtune speeds train --output speeds.safetensors --traces node7.csv",
      "learn from recorded speeds as well");
  return [options](const Console& console) {
    return run_speeds(console, *options);
  };
}

}  // namespace dtune
