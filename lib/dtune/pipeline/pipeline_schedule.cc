#include "dtune/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kNotYet = -1;

std::vector<PipelineTask> gpipe(int micro_batches) {
  std::vector<PipelineTask> tasks;
  for (int i = 0; i < micro_batches; ++i) {
    tasks.push_back({PassDirection::forward, i});
  }
  for (int i = micro_batches; i-- > 0;) {
    tasks.push_back({PassDirection::backward, i});
  }
  return tasks;
}

std::vector<PipelineTask> one_f_one_b(const StagePlace& place,
                                      int micro_batches) {
  const int ahead = std::min(micro_batches, place.stages - 1 - place.stage);
  std::vector<PipelineTask> tasks;
  for (int i = 0; i < ahead; ++i) tasks.push_back({PassDirection::forward, i});
  for (int i = 0; i < micro_batches; ++i) {
    if (ahead + i < micro_batches) {
      tasks.push_back({PassDirection::forward, ahead + i});
    }
    tasks.push_back({PassDirection::backward, i});
  }
  return tasks;
}

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
      DTUNE_CHECK(stage.next == stage.tasks.size());  // else: a deadlock
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

std::vector<PipelineTask> pipeline_schedule(PipelineSchedule kind,
                                            const StagePlace& place,
                                            int micro_batches) {
  DTUNE_CHECK(place.stage >= 0 && place.stage < place.stages);
  if (kind == PipelineSchedule::gpipe) return gpipe(micro_batches);
  return one_f_one_b(place, micro_batches);
}

int most_in_flight(std::span<const PipelineTask> tasks) {
  int now = 0;
  int most = 0;
  for (const PipelineTask& task : tasks) {
    now += task.direction == PassDirection::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<MicroBatch> cut_into_micro_batches(int64_t samples, int wanted,
                                               int64_t least) {
  DTUNE_CHECK(wanted >= 1 && least >= 1);
  std::vector<MicroBatch> parts;
  if (samples <= 0) return parts;
  const int64_t count =
      std::clamp<int64_t>(samples / least, 1, int64_t{wanted});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = samples * i / count;
    parts.push_back({first, samples * (i + 1) / count - first});
  }
  return parts;
}

PipelineTiming simulate_pipeline(PipelineSchedule kind,
                                 std::span<const StageSeconds> stages,
                                 int micro_batches) {
  DTUNE_CHECK(!stages.empty());
  return Simulation(kind, stages, micro_batches).run();
}

}  // namespace dtune
