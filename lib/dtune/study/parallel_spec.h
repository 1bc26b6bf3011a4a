// The `parallel:` section of a recipe: how several ranks share the work of one
// trial. Plain data.
#pragma once

namespace dtune {

// How the ranks of one trial share its work.
enum class ParallelMode {
  none,    // one rank
  data,    // each rank has the whole network and a part of each batch
  model,   // each rank has some layers: a pipeline
  hybrid,  // `data` pipelines of `model` stages
};

enum class SyncKind { allreduce, ps };
enum class StragglerPolicy { automatic, off };
enum class PredictorKind { lstm, ema, last };
enum class Consistency { sync, ssp, async };
enum class StalenessRule { delay_adaptive, inverse, none };
enum class Compensation { none, constant, adaptive };  // DC-ASGD
enum class PipelineSchedule { one_f_one_b, gpipe };

struct ParameterServerSpec {
  int servers = 1;
  // sync has the optimum of one process. ssp and async: sgd has a momentum for
  // each worker (parameter_server/ps_rules.h).
  Consistency consistency = Consistency::sync;
  int bound = 4;    // ssp: clocks that the fastest may be ahead
  int discard = 0;  // gradients this stale are dropped; 0: 2 x ranks
  StalenessRule staleness_lr = StalenessRule::delay_adaptive;
  Compensation compensation = Compensation::none;
  double lambda = 0;  // 0: 0.04 (constant), 2 (adaptive)
};

struct PipelineSpec {
  int micro_batches = 0;  // 0: 4 a stage, as far as the batch allows
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool recompute = false;  // activations again in the backward pass
};

struct ParallelSpec {
  ParallelMode mode = ParallelMode::none;
  int ranks = 1;  // data: that compute; model: stages; hybrid: data x model
  int data = 1;   // hybrid
  int model = 1;  // hybrid
  SyncKind sync = SyncKind::allreduce;
  StragglerPolicy stragglers = StragglerPolicy::automatic;
  PredictorKind predictor = PredictorKind::lstm;  // of ranks' speeds
  bool overlap = true;   // reduce gradients while others are computed
  double bucket_mb = 4;  // MiB that are reduced at once; the first: a quarter
  ParameterServerSpec ps;
  PipelineSpec pipeline;
};

// Processes of one trial's gang, parameter servers included.
int gang_members(const ParallelSpec& parallel);

const char* to_string(ParallelMode mode);
const char* to_string(SyncKind sync);
const char* to_string(StragglerPolicy policy);
const char* to_string(PredictorKind kind);
const char* to_string(Consistency consistency);
const char* to_string(StalenessRule rule);
const char* to_string(Compensation compensation);
const char* to_string(PipelineSchedule schedule);

}  // namespace dtune
