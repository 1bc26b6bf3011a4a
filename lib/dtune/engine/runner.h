// Makes CNN sessions; keeps each prepared data set mapped once.
#pragma once

#include <memory>

#include "dtune/study/trial_runner.h"

namespace dtune {

std::unique_ptr<TrialRunner> make_cnn_runner(int threads);

}  // namespace dtune
