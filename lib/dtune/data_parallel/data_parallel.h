// Data-parallel training with all-reduce: every rank has the whole network and
// computes a part of each batch; the gradient of the ranks together is that of
// one process with the whole batch, to float rounding.
//
// Gradients are weighted by the class weights of their samples, so parts may be
// of any size, also empty. They are summed bucket by bucket (buckets.h) when
// the backward pass is done, or, where that hides much (overlap_choice.h),
// while it goes on; nothing is applied before all of them are. L2 is added and
// the norm clipped after the sum, once.
//
// Batch norm: each rank normalises by the statistics of its own part, so its
// gradient is not that of one process (Ioffe and Szegedy 2015 say nothing of
// ranks; PyTorch's DistributedDataParallel does the same). Running statistics
// are each rank's own during a step, and at its end, before it is judged, they
// become the mean over the ranks, weighted by the samples that each has trained
// in the step.
//
// Costs a step of a batch: 2 (n - 1) / n times the network's bytes sent and
// received by each of n ranks, and two small messages to the gang's server.
#pragma once

#include <memory>

#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

// A rank's session. REQUIRES: assignment.rank. Throws as
// make_cnn_session.
std::unique_ptr<TrialSession> make_data_parallel_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data);

}  // namespace dtune
