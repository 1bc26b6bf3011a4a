// Images a second of one worker that trains cnn-small, against the same
// network, batch size and optimizer in plain C++ LibTorch. Both run in this
// process on one thread, in turns; the ratio is that of the medians.
//
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/train_baseline.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"
#include "dtune/train/torch_settings.h"
#include "dtune/train/trainer.h"

namespace dtune {
namespace {

constexpr int kBatch = 128;
constexpr int kClasses = 10;
constexpr int kBatchesPerRound = 16;
constexpr int kRounds = 9;
constexpr double kGoal = 1.3;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> spent =
      std::chrono::steady_clock::now() - start;
  return spent.count();
}

// Fashion-MNIST where the system has it, else synthetic images of its number
// and size: how many activations live decides how much there is to do.
DataSpec data_spec() {
  DataSpec spec;
  if (std::filesystem::exists(source_path(spec))) return spec;
  spec.kind = DataKind::synthetic;
  spec.classes = kClasses;
  spec.samples = 60000;
  spec.height = 28;
  spec.width = 28;
  return spec;
}

BenchData baseline_data(const PreparedData& data) {
  const auto images = data.images(Split::train);
  const auto labels = data.labels(Split::train);
  return {{images.begin(), images.end()}, {labels.begin(), labels.end()}};
}

// What the baseline trains: cnn-small, batches of 128, SGD with momentum.
Recipe make_recipe() {
  Recipe recipe;
  recipe.model.arch = "cnn-small";
  recipe.model.dropout = 0.25;
  recipe.train.batch_size = kBatch;
  recipe.train.lr = 0.05;
  recipe.train.l2 = 1e-4;
  return recipe;
}

// dtune's trainer, as a worker runs it.
class Ours {
 public:
  explicit Ours(std::shared_ptr<const PreparedData> data)
      : trainer_(make_recipe(), {.epochs = 1000}, std::move(data)) {}

  int64_t flops_per_image() {
    return 3 * trainer_.network().flops_per_sample();
  }

  void train(int batches) {
    trainer_.train_to(trainer_.position() + int64_t{batches} * kBatch, never_);
  }

 private:
  Trainer trainer_;
  std::atomic<bool> never_{false};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename Trainee>
double rate_of(Trainee& trainee) {
  const double images = kBatch * kBatchesPerRound;
  return images / seconds_of([&] { trainee.train(kBatchesPerRound); });
}

struct Rates {
  std::vector<double> ours;
  std::vector<double> baseline;
  double matrix = 0;  // GFLOP/s of one core at multiplying matrices
};

Rates measure(Ours& ours, Baseline& baseline) {
  Rates rates;
  ours.train(4);
  baseline.train(4);
  for (int round = 0; round < kRounds; ++round) {
    rates.ours.push_back(rate_of(ours));
    rates.baseline.push_back(rate_of(baseline));
  }
  rates.matrix = matrix_rate();
  return rates;
}

struct Row {
  std::string name;
  double ours;
  double baseline;
  std::string detail;
};

void print(const Row& row) {
  const double ratio = row.ours / row.baseline;
  fmt::print(R"({{"name":"{}","ours":{:.0f},"baseline":{:.0f},"ratio":{:.3f},)"
             R"("goal":{},"ok":{},"unit":"images/s","detail":"{}"}})"
             "\n",
             row.name, row.ours, row.baseline, ratio, kGoal, ratio >= kGoal,
             row.detail);
  std::fflush(stdout);
}

// Operations are counted as for a plain convolution, forward and backward,
// whatever was really multiplied.
void print_libtorch_row(const Rates& rates, int64_t flops_per_image,
                        const char* data) {
  const double ours = median(rates.ours);
  const double baseline = median(rates.baseline);
  const double matrix = rates.matrix;
  const double scale = 1e-9 * static_cast<double>(flops_per_image);
  print({"images/s, one worker, cnn-small, against plain C++ LibTorch", ours,
         baseline,
         fmt::format("{:.1f} GFLOP/s where one core's matrix product reaches "
                     "{:.1f}: {:.0f}%; the baseline {:.0f}%; data {}",
                     ours * scale, matrix, 100 * ours * scale / matrix,
                     100 * baseline * scale / matrix, data)});
}

// What a command prints; "" if it fails.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    text.push_back(static_cast<char>(c));
  }
  return ::pclose(pipe) == 0 ? text : "";
}

// No row where no Python has torch.
void print_python_row(Ours& ours) {
  const char* chosen = std::getenv("DTUNE_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  const std::string text =
      output_of(fmt::format("'{}' '{}/tests/bench/train_baseline.py' "
                            "2>/dev/null",
                            python, DTUNE_SOURCE_DIR));
  const auto found = nlohmann::json::parse(text, nullptr, false);
  if (!found.is_object()) return;
  std::vector<double> rates;
  for (int round = 0; round < kRounds; ++round) {
    rates.push_back(rate_of(ours));
  }
  print({"images/s, one worker, cnn-small, against PyTorch's usual loop",
         median(rates), found.value("images_per_second", 0.0),
         "PyTorch " + found.value("torch", std::string("?"))});
}

void run() {
  // Also raises the allocator's thresholds: a gain for the baseline too.
  use({.threads = 1});
  const TemporaryDirectory folder;
  const DataSpec spec = data_spec();
  const auto data =
      std::make_shared<PreparedData>(prepare_data(spec, folder.path()));
  Ours ours(data);
  Baseline baseline(baseline_data(*data));
  const Rates rates = measure(ours, baseline);
  print_libtorch_row(rates, ours.flops_per_image(), to_string(spec.kind));
  print_python_row(ours);
}

}  // namespace
}  // namespace dtune

int main() {
  dtune::run();
  return 0;
}
