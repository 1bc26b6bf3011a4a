// Data-parallel training with a parameter server (parallel: {mode: data, sync:
// ps}): members [0, ranks) are workers, which compute gradients, the others are
// servers, which hold the weights and the optimizer's state, a slice each.
//
// What is applied when, and how much: ps_clock.h. How it travels:
// parameter_server/ps_protocol.h. Momentum and moments are the server's, of all
// gradients. With `sync` a step equals one process's to rounding, batch norm
// aside.
//
// Batch norm: each worker normalises by its own samples. Running statistics are
// each worker's own during a step; at its end they become the mean over the
// workers, weighted by the samples of their accepted gradients.
//
// For the gang's server a step is one round of training, an evaluation by the
// workers, and a commit, for which the leader fetches the optimizer's state: it
// writes the same checkpoint as one process would. A worker that dies is
// not waited for, and one that comes later joins in. A server that dies ends
// the gang: the trial goes on from its checkpoint.
#pragma once

#include <memory>

#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

// A worker's or a server's session, as the rank is. REQUIRES:
// assignment.rank. Throws as
// make_cnn_session.
std::unique_ptr<TrialSession> make_parameter_server_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data);

}  // namespace dtune
