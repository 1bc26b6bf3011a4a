// dtune surrogate: make the learnt prior and the network's weights.

#include "app/command_surrogate.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "app/command.h"
#include "app/overrides.h"
#include "app/study_files.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/suggest.h"
#include "dtune/curves/curves_file.h"
#include "dtune/pretrain/surrogate_trainer.h"
#include "dtune/surrogate/recorded_cubes.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

// Every so many cubes, one is for validation where no task is left out.
constexpr size_t kValidationEvery = 16;
constexpr size_t kValidationDraws = 8;
constexpr uint64_t kDefaultMinutes = 30;

struct CubeSplit {
  std::vector<RecordedCube> training;
  std::vector<RecordedCube> validation;
};

[[noreturn]] void fail_surrogate(const std::string& text) {
  throw Error(ErrorKind::config,
              "dtune surrogate " + text + " (see dtune surrogate --help)");
}

void check_train(const SurrogateOptions& options) {
  if (options.output_prior.empty())
    fail_surrogate("train: needs --output-prior FILE");
  refuse_to_replace(options.output_prior);
  refuse_to_replace(options.output_network);
  if (options.prior_only) return;
  if (options.output_network.empty()) {
    fail_surrogate("train: needs --output-network FILE, or --prior-only");
  }
  if (options.minutes && options.samples) {
    fail_surrogate("train: --minutes and --samples exclude each other");
  }
  check_engine_installed();
}

CubeSplit split_of(const std::vector<RecordedCurves>& curves,
                   const CubeAxes& axes,
                   const std::vector<std::string>& left_out) {
  CubeSplit split;
  size_t number = 0;
  for (const RecordedCurves& one : curves) {
    const bool judged = left_out.empty() ? ++number % kValidationEvery == 0
                                         : contains(left_out, one.task);
    auto& cubes = judged ? split.validation : split.training;
    cubes.push_back(recorded_cube(one.smoothed(), axes));
  }
  if (split.validation.empty()) split.validation = split.training;
  return split;
}

std::vector<RecordedCurves> without(std::vector<RecordedCurves> curves,
                                    const std::vector<std::string>& left_out) {
  std::erase_if(curves, [&](const RecordedCurves& one) {
    return contains(left_out, one.task);
  });
  return curves;
}

// What the prior is learnt from.
std::vector<RecordedCube> cubes_of(const std::vector<RecordedCurves>& curves,
                                   const CubeAxes& axes) {
  if (curves.size() > 1 && curves.size() < kFewCurves) {
    return shifted_cubes(curves, axes);
  }
  std::vector<RecordedCube> cubes;
  cubes.reserve(curves.size());
  for (const RecordedCurves& one : curves) {
    cubes.push_back(recorded_cube(one, axes));
  }
  return cubes;
}

std::string provenance(const SurrogateOptions& options, uint64_t samples) {
  std::string text = "dtune surrogate train";
  for (const std::string& path : options.curves) {
    text += " " + std::filesystem::path(path).filename().string();
  }
  const std::vector<std::string> left_out = split_list(options.leave_out);
  if (!left_out.empty()) {
    text += fmt::format(" --leave-out {}", fmt::join(left_out, ","));
  }
  if (samples == 0) return text + " --prior-only";
  if (options.hidden) text += fmt::format(" --hidden {}", *options.hidden);
  return text + fmt::format(" --samples {} --seed {}", samples,
                            options.seed.value_or(1));
}

std::shared_ptr<const LearntPrior> train_prior(
    const Console& console, const SurrogateOptions& options,
    const CubeAxes& axes, const std::vector<RecordedCurves>& curves) {
  const std::vector<RecordedCube> cubes = cubes_of(curves, axes);
  const LearntPrior learnt = LearntPrior::learn(axes, cubes, kPriorComponents);
  learnt.save(options.output_prior, provenance(options, 0));
  const auto copies = cubes.size() - curves.size();
  console.notice(fmt::format(
      "wrote {}: learnt from {} cubes{}", options.output_prior, curves.size(),
      copies > 0 ? fmt::format(" and {} shifted copies", copies) : ""));
  // As it was written: the network is to know that one.
  return std::make_shared<const LearntPrior>(
      LearntPrior::load(options.output_prior));
}

void show(const Console& console, const SurrogateTrainProgress& p) {
  console.notice(fmt::format(
      "{:7.1f} s  {:>8}/{} samples  training {:.3f} (heavy tails {:.3f})  "
      "held out: final {:.3f} ({:.3f}), all {:.3f} ({:.3f})",
      p.seconds, p.samples, p.of, -p.loss, -p.heavy_loss,
      p.validation.network_final, p.validation.heavy_final,
      p.validation.network_all, p.validation.heavy_all));
}

void train_weights(const Console& console, const SurrogateOptions& options,
                   const std::shared_ptr<const LearntPrior>& prior,
                   CubeSplit split) {
  const unsigned threads = thread_count(options);
  const StudySampler judged(prior, std::move(split.validation),
                            {.augmented = 0});
  const std::vector<TrainingSample> validation =
      draw_samples(judged, 1, kValidationDraws, threads);
  const StudySampler sampler(prior, std::move(split.training), {});
  SurrogateTrainOptions train;
  train.samples = options.samples.value_or(0);
  if (train.samples == 0) {
    train.minutes =
        static_cast<double>(options.minutes.value_or(kDefaultMinutes));
  }
  // A short training shuffles fewer draws; a batch needs two of them.
  const uint64_t wanted = options.samples.value_or(UINT64_MAX);
  train.draws =
      std::clamp<uint64_t>(wanted / sampler.samples_of_draw(), 2, train.draws);
  train.threads = threads;
  train.seed = options.seed.value_or(1);
  if (options.hidden) train.shape.hidden = static_cast<int>(*options.hidden);
  train.progress = [&](const SurrogateTrainProgress& p) { show(console, p); };
  console.notice(
      "log-scores in nats of z; in brackets the process with heavy tails");
  const TrainedSurrogate trained =
      load_engine().train_surrogate(sampler, validation, train);
  trained.network.save(
      options.output_network,
      {{"provenance", provenance(options, trained.samples)},
       {kLeftOutKey,
        fmt::format("{}", fmt::join(split_list(options.leave_out), ","))}});
  console.notice(fmt::format("wrote {}: {} samples", options.output_network,
                             trained.samples));
}

int train_surrogate(const Console& console, const SurrogateOptions& options) {
  check_train(options);
  const std::vector<std::string> left_out = split_list(options.leave_out);
  const std::vector<RecordedCurves> curves = read_all_curves(options);
  const CubeAxes axes = prior_axes(curves);
  CubeSplit split = split_of(curves, axes, left_out);
  const auto prior =
      train_prior(console, options, axes, without(curves, left_out));
  if (!options.prior_only) {
    train_weights(console, options, prior, std::move(split));
  }
  return kExitOk;
}

int run_surrogate(const Console& console, const SurrogateOptions& options) {
  static const std::vector<std::string> actions = {"train", "eval"};
  if (options.action == "train") return train_surrogate(console, options);
  if (options.action == "eval") return eval_surrogate(console, options);
  fail_surrogate(fmt::format("cannot '{}'{}", options.action,
                             did_you_mean(options.action, actions)));
}

}  // namespace

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<RecordedCurves> read_all_curves(const SurrogateOptions& options) {
  std::vector<RecordedCurves> all;
  for (const std::string& path : options.curves) {
    std::vector<RecordedCurves> curves = read_curves(path);
    std::move(curves.begin(), curves.end(), std::back_inserter(all));
  }
  std::set<std::string> known;
  for (const RecordedCurves& curves : all) known.insert(curves.task);
  const std::vector<std::string> names(known.begin(), known.end());
  for (const std::string& task : split_list(options.leave_out)) {
    if (!known.contains(task)) {
      fail_surrogate(fmt::format("{}: --leave-out: there is no task '{}'{}",
                                 options.action, task,
                                 did_you_mean(task, names)));
    }
  }
  return all;
}

unsigned thread_count(const SurrogateOptions& options) {
  return static_cast<unsigned>(options.threads.value_or(
      std::max(1U, std::thread::hardware_concurrency())));
}

Action declare_surrogate(Arguments& arguments) {
  auto options = std::make_shared<SurrogateOptions>();
  SurrogateOptions& o = *options;
  arguments.describe(
      "Makes the learnt prior and the weights of the ConvLSTM from recorded "
      "curves and from synthetic ones (train), or says how well they predict "
      "recorded studies (eval). The same curves, seed and number of samples "
      "make the same weights with the same LibTorch, whatever the number of "
      "threads.");
  arguments.positional("ACTION", o.action, "train or eval.", Complete::words,
                       true, {"train", "eval"});
  arguments.positionals("CURVES", o.curves,
                        "NPZ files of recorded curves (dtune record).",
                        Complete::file);
  arguments.option("--output-prior", o.output_prior, "FILE",
                   "train: write the prior here (safetensors).",
                   Complete::file);
  arguments.option("--output-network", o.output_network, "FILE",
                   "train: write the weights here (safetensors).",
                   Complete::file);
  arguments.flag("--prior-only", o.prior_only, "train: no network.");
  arguments.option("--minutes", o.minutes, "N",
                   "train: for about this many minutes (default: 30); prints "
                   "the number of samples.",
                   {1, 1'000'000});
  arguments.option("--samples", o.samples, "N",
                   "train: on this many studies instead.", {1, UINT64_MAX});
  arguments.option("--hidden", o.hidden, "N",
                   "train: channels of the network (default: 16).", {1, 128});
  arguments.option("--leave-out", o.leave_out, "TASK",
                   "Tasks (several with commas) to hold out: train learns "
                   "nothing from them, eval judges only them.");
  arguments.option(
      "--prior", o.prior, "FILE",
      "eval: this prior (default: the shipped one for what the curves "
      "were recorded from, CNNs or other networks).",
      Complete::model);
  arguments.option(
      "--network", o.network, "FILE",
      "eval: these weights (default: the shipped ones that go with it).",
      Complete::model);
  arguments.flag("--leave-out-own", o.leave_out_own,
                 "eval: each task is left out of the prior that predicts it.");
  arguments.flag("--allow-seen", o.allow_seen,
                 "eval: judge also on tasks that the shipped network was "
                 "trained on.");
  arguments.option("--studies", o.studies, "N",
                   "eval: partial studies to judge on (default: 102).",
                   {1, 1'000'000});
  arguments.option("--threads", o.threads, "N", "Default: all cores.",
                   kManyThreads);
  arguments.option("--seed", o.seed, "N", "Default: 1.", kAnySeed);
  arguments.json("eval: the table as JSON.");
  arguments.example(
      "dtune surrogate train curves.npz --output-prior p.safetensors "
      "--output-network n.safetensors --minutes 25",
      "learn from all tasks of a file");
  arguments.example("dtune surrogate eval curves.npz --leave-out-own",
                    "how well the shipped weights predict them");
  return [options](const Console& console) {
    return run_surrogate(console, *options);
  };
}

}  // namespace dtune
