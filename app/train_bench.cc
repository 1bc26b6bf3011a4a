#include "app/train_bench.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/data/prepared.h"

namespace dtune {
namespace {

constexpr int kImages = 16384;  // of an epoch, if its batches are smaller

struct Strategy {
  const char* name;
  const char* parallel;  // YAML, without ranks
  bool shares_batch;     // each rank has a part of the batch
};

constexpr Strategy kStrategies[] = {
    {"allreduce", "mode: data", true},
    {"allreduce-later", "mode: data, overlap: false", true},
    {"ps", "mode: data, sync: ps", true},
    {"ps-ssp", "mode: data, sync: ps, ps: { consistency: ssp }", true},
    {"ps-async", "mode: data, sync: ps, ps: { consistency: async }", true},
    {"pipeline", "mode: model", false},
    {"gpipe", "mode: model, pipeline: { schedule: gpipe }", false},
};

const Strategy& find_strategy(const std::string& name) {
  for (const Strategy& strategy : kStrategies) {
    if (name == strategy.name) return strategy;
  }
  std::string known;
  for (const std::string& one : bench_strategies()) {
    known += (known.empty() ? "" : ", ") + one;
  }
  throw Error(
      ErrorKind::config,
      fmt::format("--strategy: '{}' is unknown (there are {})", name, known));
}

// Whole batches, of few enough images that they stay in memory; the validation
// that ends a step is as small as it can be.
RecipeFile recipe_for(const TrainBenchOptions& options,
                      const Strategy& strategy, int ranks) {
  const bool alone = ranks == 1;
  const int batch =
      strategy.shares_batch ? options.batch * ranks : options.batch;
  const int epoch = batch * std::clamp(kImages / batch, 1, options.batches);
  constexpr int kValidation = 20;
  const std::string parallel =
      alone ? ""
            : fmt::format("parallel: {{ {}, ranks: {}, stragglers: {} }}\n",
                          strategy.parallel, ranks,
                          options.watchful ? "auto" : "off");
  return RecipeFile::parse(
      fmt::format("study: bench\n"
                  "data: {{ kind: synthetic, size: {0}, channels: 3, samples: "
                  "{1}, validation: {2} }}\n"
                  "model: {{ arch: {3} }}\n"
                  "train: {{ epochs: 1000, step: {{ samples: {4} }}, "
                  "batch_size: {5}, lr: {7} }}\n"
                  "space: none\n{6}",
                  options.image, std::max(epoch, 64) + kValidation, kValidation,
                  options.model, batch * options.batches, batch, parallel,
                  options.lr),
      "bench", "", {});
}

TimeShares shares_of(const gang::RoundTimes& times) {
  double sum = 0;
  for (const TimePart& part : kTimeParts) sum += times.*part.seconds;
  TimeShares shares{};
  for (size_t i = 0; i < shares.size() && sum > 0; ++i) {
    shares[i] = 100 * (times.*kTimeParts[i].seconds) / sum;
  }
  return shares;
}

TimeShares mean_of(const std::vector<TimeShares>& ranks) {
  TimeShares mean{};
  const auto count = static_cast<double>(std::max<size_t>(ranks.size(), 1));
  for (const TimeShares& one : ranks) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += one[i] / count;
  }
  return mean;
}

// Columns as wide as their heading, and as "100.0".
int width_of(const TimePart& part) {
  return std::max(static_cast<int>(std::string_view(part.name).size()), 5);
}

std::string headings() {
  std::string text;
  for (const TimePart& part : kTimeParts) {
    text += fmt::format(" {:>{}}", part.name, width_of(part));
  }
  return text;
}

std::string columns_of(const TimeShares& shares) {
  std::string text;
  for (size_t i = 0; i < shares.size(); ++i) {
    text += fmt::format(" {:>{}.1f}", shares[i], width_of(kTimeParts[i]));
  }
  return text;
}

void add_members(const std::vector<MemberStatus>& members, int ranks,
                 TrainBenchRow& row) {
  for (size_t i = 0; i < members.size() && i < size_t(ranks); ++i) {
    const MemberStatus& member = members[i];
    row.of_rank.push_back(shares_of(member.times));
    row.share.push_back(member.share);
    row.late.push_back(member.late);
    const double compute = member.times.compute();
    if (compute > 0) {
      row.speeds += static_cast<double>(member.times.samples) / compute;
    }
  }
  row.mean = mean_of(row.of_rank);
}

nlohmann::ordered_json json_of(const TimeShares& shares) {
  nlohmann::ordered_json object;
  for (size_t i = 0; i < shares.size(); ++i) {
    object[kTimeParts[i].name] = shares[i];
  }
  return object;
}

}  // namespace

const std::vector<std::string>& bench_strategies() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Strategy& strategy : kStrategies)
      all.emplace_back(strategy.name);
    return all;
  }();
  return names;
}

TrainBenchRow measure_training(const TrainBenchOptions& options,
                               const std::string& strategy, int ranks,
                               double alone) {
  const Strategy& found = find_strategy(strategy);
  GangCase gang{.recipe = recipe_for(options, found, ranks)};
  const Recipe& recipe = gang.recipe.recipe();
  gang.prepared_data = prepare_data(recipe.data, cache_directory());
  gang.steps = options.steps;
  gang.disturbances = options.disturbances;
  gang.trace = options.trace;
  const GangRun run = run_gang(gang);
  TrainBenchRow row;
  row.strategy = ranks == 1 ? "one process" : strategy;
  row.ranks = ranks;
  row.seconds.assign(run.steps.begin() + gang.warmup, run.steps.end());
  row.losses.assign(run.losses.begin() + gang.warmup, run.losses.end());
  row.images_per_second =
      static_cast<double>(recipe.train.step_samples * gang.steps) /
      std::accumulate(row.seconds.begin(), row.seconds.end(), 0.0);
  const double base = ranks == 1 ? row.images_per_second : alone;
  if (base > 0) row.efficiency = row.images_per_second / (ranks * base);
  add_members(run.members, ranks, row);
  return row;
}

std::string train_table(const std::vector<TrainBenchRow>& rows) {
  std::string text = fmt::format(
      "{:<16} {:>5} {:>10} {:>8}   share of a rank's time, %\n"
      "{:<16} {:>5} {:>10} {:>8}  {}\n",
      "strategy", "ranks", "images/s", "scaling", "", "", "", "", headings());
  for (const TrainBenchRow& row : rows) {
    const std::string scaling =
        row.efficiency > 0 ? fmt::format("{:.2f}", row.efficiency) : "";
    text += fmt::format("{:<16} {:>5} {:>10.1f} {:>8}", row.strategy, row.ranks,
                        row.images_per_second, scaling);
    if (!row.of_rank.empty()) text += "  " + columns_of(row.mean);
    text += '\n';
  }
  return text;
}

std::string train_json(const TrainBenchOptions& options,
                       const std::vector<TrainBenchRow>& rows) {
  nlohmann::ordered_json document = {{"model", options.model},
                                     {"image", options.image},
                                     {"batch", options.batch},
                                     {"lr", options.lr},
                                     {"rows", nlohmann::ordered_json::array()}};
  for (const TrainBenchRow& row : rows) {
    nlohmann::ordered_json one = {{"strategy", row.strategy},
                                  {"ranks", row.ranks},
                                  {"images_per_second", row.images_per_second},
                                  {"efficiency", row.efficiency},
                                  {"speeds", row.speeds},
                                  {"seconds", row.seconds},
                                  {"train_loss", row.losses}};
    if (!row.of_rank.empty()) one["percent"] = json_of(row.mean);
    for (size_t i = 0; i < row.of_rank.size(); ++i) {
      nlohmann::ordered_json rank = {{"rank", i},
                                     {"share", row.share[i]},
                                     {"late", row.late[i]},
                                     {"percent", json_of(row.of_rank[i])}};
      one["of_rank"].push_back(std::move(rank));
    }
    document["rows"].push_back(std::move(one));
  }
  return json_text(document, 2);
}

}  // namespace dtune
