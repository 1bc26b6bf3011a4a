#include "dtune/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

constexpr PipelineSchedule kKinds[] = {PipelineSchedule::gpipe,
                                       PipelineSchedule::one_f_one_b};

// Messages in order; the receiver blocks.
class Channel {
 public:
  void send(int micro) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(micro);
    changed_.notify_all();
  }

  int receive() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60),
                      [this] { return !messages_.empty(); });
    if (messages_.empty()) return -1;
    const int micro = messages_.front();
    messages_.pop_front();
    return micro;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> messages_;
};

// Goes through one stage's tasks; false where a message is not the one that
// the task at hand needs.
bool play(std::span<const PipelineTask> tasks, const StagePlace& place,
          std::vector<Channel>& down, std::vector<Channel>& up) {
  const auto stage = static_cast<size_t>(place.stage);
  for (const PipelineTask& task : tasks) {
    if (task.direction == PassDirection::forward) {
      if (!place.first() && down[stage - 1].receive() != task.micro) {
        return false;
      }
      if (!place.last()) down[stage].send(task.micro);
    } else {
      if (!place.last() && up[stage].receive() != task.micro) return false;
      if (!place.first()) up[stage - 1].send(task.micro);
    }
  }
  return true;
}

// How long stages take for one micro-batch.
struct StageSeconds {
  double forward = 0;
  double backward = 0;
};

// What a schedule does with these times, played through: messages take no time.
struct PipelineTiming {
  double total = 0;   // seconds of one batch
  double bubble = 0;  // idle share of all stages' time
};

constexpr double kNotYet = -1;

// All stages of a pipeline played through.
class Simulation {
 public:
  Simulation(PipelineSchedule kind, std::span<const StageSeconds> stages,
             int micro_batches)
      : seconds_(stages), stages_(stages.size()) {
    const auto micros = static_cast<size_t>(micro_batches);
    for (size_t j = 0; j < stages.size(); ++j) {
      const StagePlace place{static_cast<int>(j),
                             static_cast<int>(stages.size())};
      stages_[j].tasks = pipeline_schedule(kind, place, micro_batches);
      stages_[j].forward_done.assign(micros, kNotYet);
      stages_[j].backward_done.assign(micros, kNotYet);
    }
  }

  PipelineTiming run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t j = 0; j < stages_.size(); ++j) {
        while (advance(j)) moved = true;
      }
    }
    return timing();
  }

 private:
  struct Stage {
    std::vector<PipelineTask> tasks;
    size_t next = 0;
    double now = 0;
    double busy = 0;
    std::vector<double> forward_done;  // by micro-batch
    std::vector<double> backward_done;
  };

  // When what the task needs is there; kNotYet where it is not known.
  double input_time(size_t stage, const PipelineTask& task) const {
    const auto micro = static_cast<size_t>(task.micro);
    if (task.direction == PassDirection::forward) {
      return stage == 0 ? 0 : stages_[stage - 1].forward_done[micro];
    }
    return stage + 1 == stages_.size()
               ? stages_[stage].forward_done[micro]
               : stages_[stage + 1].backward_done[micro];
  }

  bool advance(size_t j) {
    Stage& stage = stages_[j];
    if (stage.next == stage.tasks.size()) return false;
    const PipelineTask task = stage.tasks[stage.next];
    const double input = input_time(j, task);
    if (input == kNotYet) return false;
    const bool forward = task.direction == PassDirection::forward;
    const double took = forward ? seconds_[j].forward : seconds_[j].backward;
    stage.now = std::max(stage.now, input) + took;
    stage.busy += took;
    auto& done = forward ? stage.forward_done : stage.backward_done;
    done[static_cast<size_t>(task.micro)] = stage.now;
    ++stage.next;
    return true;
  }

  PipelineTiming timing() const {
    PipelineTiming timing;
    double busy = 0;
    for (const Stage& stage : stages_) {
      REQUIRE(stage.next == stage.tasks.size());  // else: a deadlock
      timing.total = std::max(timing.total, stage.now);
      busy += stage.busy;
    }
    const double all = timing.total * static_cast<double>(stages_.size());
    timing.bubble = all > 0 ? 1 - busy / all : 0;
    return timing;
  }

  std::span<const StageSeconds> seconds_;
  std::vector<Stage> stages_;
};

}  // namespace

TEST_CASE("every micro-batch goes forward once and then backward once") {
  for (const PipelineSchedule kind : kKinds) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (int stage = 0; stage < stages; ++stage) {
        for (int micros = 1; micros <= 12; ++micros) {
          std::set<int> forward;
          std::set<int> backward;
          for (const auto& task :
               pipeline_schedule(kind, {stage, stages}, micros)) {
            if (task.direction == PassDirection::forward) {
              CHECK(forward.insert(task.micro).second);
            } else {
              CHECK(forward.contains(task.micro));
              CHECK(backward.insert(task.micro).second);
            }
          }
          CHECK(static_cast<int>(backward.size()) == micros);
        }
      }
    }
  }
}

TEST_CASE("stages hold as many micro-batches as theory says") {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int micros = 1; micros <= 12; ++micros) {
        const StagePlace place{stage, stages};
        CHECK(most_in_flight(pipeline_schedule(PipelineSchedule::gpipe, place,
                                               micros)) == micros);
        CHECK(most_in_flight(pipeline_schedule(PipelineSchedule::one_f_one_b,
                                               place, micros)) ==
              std::min(micros, stages - stage));
      }
    }
  }
}

TEST_CASE("messages come in the order in which stages want them") {
  for (const PipelineSchedule kind : kKinds) {
    for (const int stages : {2, 3, 5}) {
      for (const int micros : {1, 2, 4, 11}) {
        const auto count = static_cast<size_t>(stages);
        std::vector<Channel> down(count);
        std::vector<Channel> up(count);
        std::vector<char> in_order(count, 0);
        std::vector<std::thread> threads;
        for (int stage = 0; stage < stages; ++stage) {
          threads.emplace_back([&, stage] {
            const StagePlace place{stage, stages};
            const auto tasks = pipeline_schedule(kind, place, micros);
            in_order[static_cast<size_t>(stage)] =
                play(tasks, place, down, up) ? 1 : 0;
          });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(std::count(in_order.begin(), in_order.end(), 1) == stages);
      }
    }
  }
}

TEST_CASE("equal stages idle (p - 1) / (m + p - 1) of the time") {
  for (const PipelineSchedule kind : kKinds) {
    for (int p = 1; p <= 6; ++p) {
      for (const int m : {1, 2, 4, 8, 32}) {
        const std::vector<StageSeconds> stages(static_cast<size_t>(p),
                                               StageSeconds{1, 2});
        const PipelineTiming timing = Simulation(kind, stages, m).run();
        CHECK(timing.bubble == doctest::Approx(double(p - 1) / (m + p - 1)));
        CHECK(timing.total == doctest::Approx(3.0 * (m + p - 1)));
      }
    }
  }
}

TEST_CASE("a slow stage sets the pace") {
  const std::vector<StageSeconds> stages = {{1, 2}, {2, 4}, {1, 2}};
  for (const PipelineSchedule kind : kKinds) {
    const PipelineTiming timing = Simulation(kind, stages, 64).run();
    CHECK(timing.total >= 64 * 6);
    CHECK(timing.total <= 64 * 6 + 12);
  }
}

TEST_CASE("micro-batches cover a batch with sizes that differ by one") {
  for (int64_t samples = 0; samples < 40; ++samples) {
    for (const int wanted : {1, 3, 8}) {
      for (const int64_t least : {1, 2}) {
        int64_t next = 0;
        const auto parts = cut_into_micro_batches(samples, wanted, least);
        for (const MicroBatch& part : parts) {
          CHECK(part.first == next);
          CHECK(part.size >= std::min(least, samples));
          CHECK(part.size <= parts.back().size + 1);
          CHECK(part.size + 1 >= parts.back().size);
          next += part.size;
        }
        CHECK(next == samples);
        CHECK(static_cast<int>(parts.size()) <= wanted);
      }
    }
  }
  CHECK(cut_into_micro_batches(30, 8, 1).size() == 8);
  CHECK(cut_into_micro_batches(5, 8, 2).size() == 2);
}
