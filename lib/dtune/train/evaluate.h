// Judges a network on a split.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include <ATen/ATen.h>

#include "dtune/nn/network.h"
#include "dtune/train/batch_source.h"
#include "dtune/train/metrics.h"
#include "dtune/train/plugin.h"

namespace dtune {

// The network's answers to all samples of the source, in their order. Batches
// have a size that depends on the images' size alone (16 to 256 samples, about
// a million pixel values): with one thread, equal weights give equal answers to
// the last bit, whatever the training used. Throws StepStopped when `stop` is
// set, which is looked at before each batch.
Answers answer_all(Network& network, const BatchSource& source, int classes,
                   at::Device device, const std::atomic<bool>& stop);

// See Engine::evaluate. Computes with one thread on the CPU, as the training's
// own last look at the test split does.
std::map<std::string, double> evaluate_model(const EvalRequest& request);

}  // namespace dtune
