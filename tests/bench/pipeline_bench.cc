// What two stages of a pipeline make of two cores: images a second, against as
// many as two one-thread trainings side by side reach together, times
// m / (m + p - 1), which the schedule leaves of it. Prints a row for
// bench_runner, and predicted and measured times of the stages.
//
// Expected: 0.85 to 1. Members are threads with a Gloo group over loopback, so
// that every message goes through the system's sockets.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/file.h"
#include "dtune/pipeline/pipeline_plan.h"
#include "dtune/pipeline/pipeline_trainer.h"
#include "dtune/train/torch_settings.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

constexpr int kStages = 2;
constexpr int kMicroBatches = 8;
constexpr int kBatch = 256;
constexpr int kBatches = 2;  // of one measurement
constexpr int kRounds = 9;   // medians over these
constexpr double kGoal = 0.85;
constexpr Duration kPatience = std::chrono::seconds(120);

// Values by name, shared by threads.
class SharedValues final : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key, Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout,
                           [&] { return values_.contains(key); })) {
      throw Error(ErrorKind::comm, "'" + key + "' was never set");
    }
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

void on_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kStages; ++i) {
    threads.emplace_back([&, i] {
      at::set_num_threads(1);
      work(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The processor's seconds that all threads spend in `work`: what a loaded
// machine does not change much.
double processor_seconds(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) +
           1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  work();
  return now() - begin;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Recipe bench_recipe() {
  Recipe recipe;
  recipe.model.arch = "resnet18";
  recipe.model.width = 16;
  recipe.train.batch_size = kBatch;
  recipe.train.epochs = 1000;
  recipe.parallel.mode = ParallelMode::model;
  recipe.parallel.ranks = kStages;
  recipe.parallel.pipeline.micro_batches = kMicroBatches;
  return recipe;
}

// kBatches batches; images a second.
template <typename Trainee>
double rate_of(Trainee& trainee) {
  const std::atomic<bool> never = false;
  const MonoTime begin = system_clock().now();
  const int64_t first = trainee.position();
  trainee.train_to(first + int64_t{kBatch} * kBatches, never);
  return static_cast<double>(trainee.position() - first) /
         to_seconds(system_clock().now() - begin);
}

class Bench {
 public:
  Bench() {
    DataSpec spec;
    spec.kind = DataKind::synthetic;
    spec.channels = 3;
    spec.height = spec.width = 32;
    spec.samples = int64_t{kBatch} * 4 + 256;
    spec.validation = 256;
    data_ = std::make_shared<const PreparedData>(
        prepare_data(spec, folder_.path()));
  }

  // Two trainings at the same time, each with a whole network.
  double side_by_side() {
    std::vector<double> rates(kStages);
    on_threads([&](int i) {
      Trainer& trainer = *alone_[static_cast<size_t>(i)];
      rates[static_cast<size_t>(i)] = rate_of(trainer);
    });
    return rates[0] + rates[1];
  }

  double one() {
    double rate = 0;
    std::thread thread([&] {
      at::set_num_threads(1);
      rate = rate_of(*alone_[0]);
    });
    thread.join();
    return rate;
  }

  double pipeline() {
    std::vector<double> rates(kStages);
    on_threads([&](int i) {
      rates[static_cast<size_t>(i)] = rate_of(*stages_[static_cast<size_t>(i)]);
    });
    return std::min(rates[0], rates[1]);
  }

  void prepare() {
    plans_.resize(kStages);
    groups_.resize(kStages);
    for (int i = 0; i < kStages; ++i) {
      alone_.push_back(std::make_unique<Trainer>(
          recipe_, TrainerOptions{.epochs = recipe_.train.epochs}, data_));
    }
    stages_.resize(kStages);
    on_threads([&](int i) { join(i); });
  }

  // Of one sample, in ms, as the members saw it since the last call.
  std::vector<double> measured() {
    std::vector<double> times;
    for (const auto& stage : stages_) {
      const gang::RoundTimes sums = stage->take_times();
      times.push_back(1e3 * sums.compute() / static_cast<double>(sums.samples));
    }
    return times;
  }

  const PipelinePlan& plan() const { return plans_[0]; }
  std::vector<LayerSpec> layers() const {
    return layers_for(recipe_.model, *data_);
  }

 private:
  void join(int member) {
    const auto at = static_cast<size_t>(member);
    const PipelinePlace place{{member, kStages}};
    groups_[at] = make_gloo_group({.rank = member,
                                   .size = kStages,
                                   .name = "bench",
                                   .address = "127.0.0.1"},
                                  store_);
    PlanRequest request;
    request.layers = layers();
    request.input = data_->image_shape();
    request.samples = kBatch / kMicroBatches;
    request.key = "plan";
    plans_[at] = agree_on_plan(
        request, place, *groups_[at], kPatience,
        {.set = [this](const auto& key,
                       const auto& value) { store_.set(key, value); },
         .get =
             [this](const auto& key) { return store_.get(key, kPatience); }});
    stages_[at] = std::make_unique<PipelineTrainer>(
        recipe_, TrainerOptions{.epochs = recipe_.train.epochs}, data_, place,
        plans_[at].first_layer);
    stages_[at]->attach({.all = groups_[at].get(), .patience = kPatience});
  }

  Recipe recipe_ = bench_recipe();
  TemporaryDirectory folder_;
  std::shared_ptr<const PreparedData> data_;
  SharedValues store_;
  std::vector<std::unique_ptr<Collective>> groups_;
  std::vector<PipelinePlan> plans_;
  std::vector<std::unique_ptr<Trainer>> alone_;
  std::vector<std::unique_ptr<PipelineTrainer>> stages_;
};

void run() {
  use({.threads = 1});
  Bench bench;
  bench.prepare();
  bench.pipeline();  // warm
  bench.side_by_side();
  bench.measured();
  const double share = double{kMicroBatches} / (kMicroBatches + kStages - 1);
  std::vector<double> both;
  std::vector<double> pipes;
  std::vector<double> ratios;  // of what was measured one after the other
  std::vector<double> processor;
  for (int round = 0; round < kRounds; ++round) {
    // Twice as many images as the pipeline takes.
    const double apart =
        processor_seconds([&] { both.push_back(bench.side_by_side()); });
    const double together =
        processor_seconds([&] { pipes.push_back(bench.pipeline()); });
    processor.push_back(2 * together / apart);
    ratios.push_back(pipes.back() / (both.back() * share));
  }
  const double one = bench.one();
  const double ideal = median(both) * share;
  const double ours = median(pipes);
  const double ratio = median(ratios);
  std::vector<double> predicted = bench.plan().predicted;
  for (double& seconds : predicted) seconds *= 1e3;
  fmt::print(stderr, "  {}\n", describe(bench.plan(), bench.layers()));
  fmt::print(
      R"({{"name":"pipeline of 2 stages on 2 cores, resnet18-16, m = 8, )"
      R"(of the ideal","ours":{:.0f},"baseline":{:.0f},"ratio":{:.3f},)"
      R"("goal":{},"ok":{},"unit":"images/s","detail":"one process {:.0f}, )"
      R"(two side by side {:.0f}, times {:.3f}; ms a sample predicted {:.3f}, )"
      R"(measured {:.3f}; processor time an image {:.2f} of one process's"}})"
      "\n",
      ours, ideal, ratio, kGoal, ratio >= kGoal, one, median(both), share,
      fmt::join(predicted, " and "), fmt::join(bench.measured(), " and "),
      median(processor));
}

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
