// In which order the stages of a pipeline take micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtune/study/parallel_spec.h"

namespace dtune {

enum class PassDirection { forward, backward };

// One thing that a stage does.
struct PipelineTask {
  PassDirection direction = PassDirection::forward;
  int micro = 0;  // number of the micro-batch in its batch
  bool operator==(const PipelineTask&) const = default;
};

// Place of one stage in its pipeline.
struct StagePlace {
  int stage = 0;  // 0: has the input; stages - 1: has the loss
  int stages = 1;
  bool first() const { return stage == 0; }
  bool last() const { return stage + 1 == stages; }
};

// The tasks of one batch of m micro-batches, in order, for stage j of p.
//
// gpipe (Huang et al. 2019, arXiv 1811.06965): all forwards, then all backwards
//   in reverse order; holds m micro-batches.
// one_f_one_b (Narayanan et al. 2019, SOSP, in its flushed form of arXiv
//   2104.04473): p - 1 - j forwards, then one forward and one backward in turn,
//   then the backwards that are left, oldest first; holds min(m, p - j).
//
// Both leave (p - 1) / (m + p - 1) of the time idle where all stages take the
// same time. Neither deadlocks, even where a receive blocks until its message
// comes and no message overtakes another, provided that sends do not block.
std::vector<PipelineTask> pipeline_schedule(PipelineSchedule kind,
                                            const StagePlace& place,
                                            int micro_batches);

// Most micro-batches that are between their forward and their backward.
int most_in_flight(std::span<const PipelineTask> tasks);

// Where one sample range of a batch is cut into micro-batches.
struct MicroBatch {
  int64_t first = 0;
  int64_t size = 0;
};

// `samples` in `wanted` parts whose sizes differ by one at most; in fewer where
// a part would have less than `least` samples; none where there is no sample.
// REQUIRES: wanted >= 1, least >= 1.
std::vector<MicroBatch> cut_into_micro_batches(int64_t samples, int wanted,
                                               int64_t least);

}  // namespace dtune
