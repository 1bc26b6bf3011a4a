#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/config/check_context.h"
#include "dtune/study/data_shape.h"
#include "dtune/study/metrics.h"

namespace dtune {
namespace {

void check_data(const CheckContext& c) {
  const DataSpec& data = c.recipe.data;
  const bool needs_path =
      data.kind == DataKind::npz || data.kind == DataKind::folder;
  if (needs_path && data.path.empty()) {
    c.complain("data", fmt::format("kind: {} needs a path (data.path: the {})",
                                   to_string(data.kind),
                                   data.kind == DataKind::npz
                                       ? ".npz file"
                                       : "folder of class folders"));
  }
  if ((data.height == 0) != (data.width == 0)) {
    c.complain("data.size",
               "'data.size' must be [height, width], both more "
               "than 0");
  }
  for (const auto& [key, share] :
       {std::pair("data.validation", data.validation),
        std::pair("data.test", data.test)}) {
    if (share > 1 && share != static_cast<double>(int64_t(share))) {
      c.complain(key, fmt::format("'{}' must be a share below 1 or a whole "
                                  "number of samples",
                                  key));
    }
  }
  if (data.kind != DataKind::npz && data.validation == 0) {
    c.complain("data.validation",
               "'data.validation' must be more than 0: without a validation "
               "split nothing can be compared");
  }
}

void check_train(const CheckContext& c) {
  const TrainSpec& train = c.recipe.train;
  const ScheduleSpec& schedule = train.schedule;
  if (schedule.kind == ScheduleKind::step && schedule.milestones.empty()) {
    c.complain("train.schedule",
               "schedule: step needs the epochs at which the rate falls "
               "(milestones: [6, 9])");
  }
  if (!std::is_sorted(schedule.milestones.begin(), schedule.milestones.end())) {
    c.complain("train.schedule.milestones",
               "'train.schedule.milestones' must rise");
  }
  if (train.nesterov && train.momentum == 0) {
    c.complain("train.nesterov", "nesterov needs a momentum above 0");
  }
  const std::string& device = train.device;
  const bool numbered =
      device.starts_with("cuda:") && device.size() > 5 && device.size() <= 8 &&
      std::all_of(device.begin() + 5, device.end(), [](unsigned char letter) {
        return std::isdigit(letter) != 0;
      });
  if (device != "auto" && device != "cpu" && device != "cuda" && !numbered) {
    c.complain(
        "train.device",
        fmt::format("'train.device' must be one of auto, cpu, cuda, "
                    "cuda:0, cuda:1, ..., but is '{}'{}",
                    device, device == "gpu" ? ", did you mean 'cuda'?" : ""));
  }
}

void check_precision(const CheckContext& c) {
  const TrainSpec& train = c.recipe.train;
  if (train.precision != Precision::tf32 || train.device != "cpu") return;
  c.complain("train.precision",
             "'train.precision': tf32 is a GPU's, but train.device is cpu (use "
             "auto, fp32 or bf16)");
}

// Of networks whose weights one process holds between updates.
void check_ema(const CheckContext& c) {
  const ParallelSpec& parallel = c.recipe.parallel;
  const bool servers =
      parallel.mode == ParallelMode::data && parallel.sync == SyncKind::ps;
  if (c.recipe.train.ema == 0 || !servers) return;
  c.complain("train.ema",
             "'train.ema' is not possible with a parameter server, whose "
             "workers do not see every update (use sync: allreduce, or remove "
             "it)");
}

void check_threshold(const CheckContext& c) {
  const FinalSpec& final_training = c.recipe.final_training;
  if (final_training.threshold == ThresholdRule::half) return;
  if (final_training.data == FinalData::train_and_validation) {
    c.complain("final.threshold",
               "'final.threshold' is chosen on the validation images, which "
               "must not be trained on (use final.data: train, or threshold: "
               "half)");
  }
  const int classes = known_data_shape(c.recipe.data).classes;
  if (classes != 0 && classes != 2) {
    c.complain("final.threshold",
               fmt::format("'final.threshold' is for two classes, but the data "
                           "have {} (remove it)",
                           classes));
  }
}

bool is_cost(const std::string& metric) {
  const auto& names = cost_metrics();
  return std::find(names.begin(), names.end(), metric) != names.end();
}

// Of the ranks of a trial none has to have the whole network.
void check_costs(const CheckContext& c) {
  if (c.recipe.parallel.mode == ParallelMode::none) return;
  for (const Expectation& one : c.recipe.objective.require) {
    if (!is_cost(one.metric)) continue;
    c.complain("require." + one.metric,
               fmt::format("'{}' is measured in trials of one process (remove "
                           "it, or 'parallel')",
                           one.metric));
  }
}

void check_trade_offs(const CheckContext& c) {
  check_costs(c);
  const std::vector<std::string> known = measured_metrics();
  for (const TradeOff& one : c.recipe.objective.trade_offs) {
    if (std::find(known.begin(), known.end(), one.metric) != known.end()) {
      continue;
    }
    c.complain("objective.trade_off",
               fmt::format("unknown metric '{}'{}", one.metric,
                           did_you_mean(one.metric, known)));
  }
}

void check_objective(const CheckContext& c) {
  check_trade_offs(c);
  const auto& known = step_metrics();
  const std::string& metric = c.recipe.objective.metric;
  if (std::find(known.begin(), known.end(), metric) != known.end()) return;
  if (metric.starts_with("test_")) {
    c.complain("objective.metric",
               fmt::format("'{}' cannot be the objective: the test split is "
                           "evaluated once, at the end (use val_{})",
                           metric, metric.substr(5)));
    return;
  }
  const std::string on_validation = "val_" + metric;
  const bool bare =
      std::find(known.begin(), known.end(), on_validation) != known.end();
  const std::string hint = did_you_mean(bare ? on_validation : metric, known);
  std::string list;
  for (const std::string& one : known) {
    list += (list.empty() ? "" : ", ") + one;
  }
  c.complain("objective.metric",
             fmt::format("unknown metric '{}'{}", metric,
                         hint.empty() ? " (known: " + list + ")" : hint));
}

// Its value would be missing when everything is spent.
void check_expectations(const CheckContext& c) {
  if (c.recipe.final_training.enabled || !c.is_fresh("expect")) return;
  for (const Expectation& one : c.recipe.expect) {
    if (!one.metric.starts_with("test_")) continue;
    c.complain("expect." + one.metric,
               fmt::format("'{}' is measured after the final training, which "
                           "'final.enabled' leaves out (use val_{}, or remove "
                           "'final.enabled')",
                           one.metric, one.metric.substr(5)));
    return;
  }
}

}  // namespace

void check_training(const CheckContext& c) {
  check_data(c);
  check_train(c);
  check_precision(c);
  check_ema(c);
  check_threshold(c);
  check_objective(c);
  check_expectations(c);
}

}  // namespace dtune
