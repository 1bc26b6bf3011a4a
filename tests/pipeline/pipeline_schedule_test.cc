#include "dtune/pipeline/pipeline_schedule.h"

#include <algorithm>
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
        const PipelineTiming timing = simulate_pipeline(kind, stages, m);
        CHECK(timing.bubble == doctest::Approx(double(p - 1) / (m + p - 1)));
        CHECK(timing.total == doctest::Approx(3.0 * (m + p - 1)));
      }
    }
  }
}

TEST_CASE("a slow stage sets the pace") {
  const std::vector<StageSeconds> stages = {{1, 2}, {2, 4}, {1, 2}};
  for (const PipelineSchedule kind : kKinds) {
    const PipelineTiming timing = simulate_pipeline(kind, stages, 64);
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
