#include "dtune/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <cstddef>

#include "dtune/base/error.h"

namespace dtune {
namespace {

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

}  // namespace dtune
