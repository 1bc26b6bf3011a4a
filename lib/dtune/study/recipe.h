// A recipe as types: everything that a study needs, read once from YAML by
// config and never looked up by text again. Plain data with the defaults that
// `dtune init` prints. Sizes are in samples, times in Duration.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/space/search_space.h"
#include "dtune/study/layers.h"

namespace dtune {

enum class DataKind {
  fashion_mnist,  // four gzip IDX files
  mnist,          // likewise
  cifar10,        // binary version: data_batch_*.bin, test_batch.bin
  cifar100,       // train.bin, test.bin
  npz,            // MedMNIST style: {train,val,test}_{images,labels}
  folder,         // folder of class folders with PNG or JPEG
  synthetic,      // made from a seed: blobs with learnable class patterns
};

// Of training images; train/augment.h says in which order and from what random
// numbers.
struct Augmentation {
  bool flip = false;  // mirror left-right with probability 1/2
  int shift = 0;      // shift by up to this many pixels each way, zero-filled
  int crop = 0;       // likewise, filled with the mirrored border
  int cutout = 0;     // side of a square that gets the mean colour
  double jitter = 0;  // brightness, contrast, saturation: times 1 +- this
  double mixup = 0;   // mean with another image; alpha of its weights' Beta
  double cutmix = 0;  // a rectangle of another image; alpha of its area's Beta
};

struct DataSpec {
  DataKind kind = DataKind::fashion_mnist;
  std::string path;         // file or folder; "": where the system package is
  double validation = 0.1;  // share (< 1) or number (>= 1) of training samples;
                            // unused where the data bring a validation split
  double test = 0.15;       // folder without a test split: share or number
  uint64_t split_seed = 0;  // of the splits: the same in all trials
  int64_t limit = 0;        // use at most this many training samples; 0: all
  bool normalize = true;    // by mean and deviation of the training split
  int height = 0;           // folder: resize to; 0: size of the first image
  int width = 0;
  bool gray = false;  // folder: read as one channel
  Augmentation augment;
  // synthetic:
  int classes = 10;
  int channels = 1;
  int64_t samples = 4096;   // training + validation; test is a quarter more
  double difficulty = 0.5;  // noise against signal, 0 (trivial) to 1 (chance)
  // Classes of equal weight in the loss instead of samples.
  bool balance = false;
};

enum class OptimizerKind { sgd, adam, adamw };
enum class ScheduleKind { constant, step, cosine };
enum class LossKind { cross_entropy, focal };

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::constant;
  double warmup = 0;               // epochs, linear from 0
  double gamma = 0.1;              // step: factor
  std::vector<double> milestones;  // step: epochs at which it applies
  double floor = 0;                // cosine: share of lr at the end
};

struct TrainSpec {
  double epochs = 12;        // the horizon in passes over the data
  int64_t step_samples = 0;  // samples a step; 0: one epoch
  int batch_size = 128;
  OptimizerKind optimizer = OptimizerKind::sgd;
  double lr = 0.05;
  double l2 = 0;  // sgd, adam: added to the gradient (coupled); adamw:
                  // w -= lr l2 w (decoupled). Not on biases and norms
                  // unless l2_on_all.
  bool l2_on_all = false;
  double momentum = 0.9;  // sgd
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam, adamw
  double beta2 = 0.999;   // adam, adamw
  double clip_norm = 0;   // of the whole gradient; 0: off
  double ema = 0;  // decay of the weights' moving average, by updates; 0: off
  ScheduleSpec schedule;
  LossKind loss = LossKind::cross_entropy;
  double label_smoothing = 0;   // cross_entropy
  double focal_gamma = 2;       // focal
  std::string device = "auto";  // auto, cpu, cuda, cuda:1
};

// In place of a model: any program.
struct CommandSpec {
  std::vector<std::string> argv;  // "{lr}" is replaced by the value
  std::string directory;          // working directory; "": the recipe's folder
  int steps = 0;                  // the horizon; 0: the program's last step
  std::map<std::string, std::string> environment;
};

enum class Goal { maximize, minimize };

enum class Comparison { less, less_equal, greater, greater_equal };

// One line of `expect:` or `require:`, e.g. val_accuracy >= 0.90.
struct Expectation {
  std::string metric;
  Comparison comparison = Comparison::greater_equal;
  double bound = 0;
  std::string text;   // as written
  std::string where;  // file:line:col

  bool holds(double value) const;  // NaN holds nowhere
};

// A metric beside the objective, of which trials are a trade-off.
struct TradeOff {
  std::string metric;
  Goal goal = Goal::maximize;
};

struct ObjectiveSpec {
  std::string metric = "val_accuracy";
  Goal goal = Goal::maximize;
  std::vector<TradeOff> trade_offs;
  // Bounds on metrics: a step beyond one of them is no result.
  std::vector<Expectation> require;
};

struct SamplerSpec {
  std::string kind = "convlstm";
  std::map<std::string, Value> options;  // checked by the sampler's factory
};

struct SchedulerSpec {
  std::string kind = "freeze-thaw";
  std::map<std::string, Value> options;
};

struct BudgetSpec {
  int trials = 0;     // started trials; 0: no limit
  Duration time{0};   // of searching, summed over resumes; 0: no limit
  int64_t steps = 0;  // steps of all trials; 0: no limit
};

// Where the search ends before its budget does.
struct StopSpec {
  std::optional<double> target;  // the objective is as good as this
  // A fifth more than what was spent improves the objective by more than `gain`
  // with a probability below `chance`; gain 0: not asked.
  double gain = 0;
  double chance = 0.05;
};

// Reports of trials that failed in the end, as by a crash or a divergence.
enum class FailedResults { ignore, use };

struct LimitsSpec {
  Duration trial_time{0};  // wall-clock cap of one trial; 0: none
  Duration step_time{0};   // of one step without a report; 0: measured
  Duration heartbeat{1'000'000'000};
  Duration lease{15'000'000'000};       // a silent slot is lost after this
  Duration grace{3'000'000'000};        // between SIGTERM and SIGKILL
  int retries = 2;                      // of a trial that was lost or crashed
  Duration full_disk{600'000'000'000};  // a full disk is waited for this long
  FailedResults failed_results = FailedResults::ignore;
};

struct ResourcesSpec {
  int slots = 0;  // 0: as many as cores (CPU) or devices (CUDA)
  int threads_per_slot = 1;
  int64_t memory_mb = 0;  // cap of one slot's memory; 0: none
  int warm_trials = 0;    // paused trials kept in a worker; 0: by memory
  int64_t disk_mb = 0;    // cap of what checkpoints take; 0: none
};

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

// A machine that brings slots.
struct NodeSpec {
  std::string address;  // "local", "ssh://user@host:port"
  int slots = 0;        // 0: one per core (or device)
};

enum class FinalData { train, train_and_validation };
enum class FinalKeep { best, last };
// Of two classes, by which criterion on the validation split the probability is
// chosen from which on the second class is the answer; half: it is 0.5.
enum class ThresholdRule { half, accuracy, balanced };

struct FinalSpec {
  bool enabled = true;
  FinalData data = FinalData::train;
  double epochs = 0;  // 0: as train.epochs
  int seeds = 1;      // trainings; the best on validation is kept
  // The best so many trials are trained again with other seeds, and the best by
  // their means is the winner; 1: the best report names it.
  int candidates = 1;
  // The step that is kept: that with the best objective, of the search's own
  // training as well; or the last of the final training.
  FinalKeep keep = FinalKeep::best;
  ThresholdRule threshold = ThresholdRule::half;
};

// Weights in place of those that ship with the program; "": shipped.
struct SurrogateSpec {
  std::string prior;
  std::string network;
};

struct Recipe {
  std::string study = "study";
  uint64_t seed = 0;
  bool deterministic = false;
  DataSpec data;
  ModelSpec model;
  TrainSpec train;
  std::optional<CommandSpec> command;  // then data, model, train are unused
  SearchSpace space;
  ObjectiveSpec objective;
  SamplerSpec sampler;
  SchedulerSpec scheduler;
  SurrogateSpec surrogate;
  std::vector<Point> points;            // tried first, in this order
  std::vector<std::string> warm_start;  // databases of other studies, CSV files
  BudgetSpec budget;
  StopSpec stop;
  LimitsSpec limits;
  ResourcesSpec resources;
  ParallelSpec parallel;
  std::vector<NodeSpec> nodes;  // empty: local
  FinalSpec final_training;
  std::vector<Expectation> expect;
  std::string directory;  // of the recipe file: relative paths start here
};

// The recipe of one trial: the study's with a point's values in place, and the
// same as YAML (kept beside a final model).
struct TrialRecipe {
  Recipe recipe;
  std::string yaml;
};

const char* to_string(DataKind kind);
const char* to_string(OptimizerKind kind);
const char* to_string(ScheduleKind kind);
const char* to_string(LossKind kind);
const char* to_string(Goal goal);
const char* to_string(FailedResults results);
const char* to_string(FinalKeep keep);
const char* to_string(ThresholdRule rule);
const char* to_string(Comparison comparison);
const char* to_string(ParallelMode mode);
const char* to_string(SyncKind sync);
const char* to_string(StragglerPolicy policy);
const char* to_string(PredictorKind kind);
const char* to_string(Consistency consistency);
const char* to_string(StalenessRule rule);
const char* to_string(Compensation compensation);
const char* to_string(PipelineSchedule schedule);

}  // namespace dtune
