// Makes CNN sessions; keeps each prepared data set mapped once.
#pragma once

#include <memory>

#include "dtune/study/trial_runner.h"

namespace dtune {

class FusedTrainer;  // train/fused_trainer.h

// `fused`, which must outlive the runner, is what its trials share with those
// of other runners of this process.
std::unique_ptr<TrialRunner> make_cnn_runner(int threads, FusedTrainer& fused);

}  // namespace dtune
