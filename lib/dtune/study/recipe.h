// A recipe as types: everything that a study needs, read once from YAML by
// config and never looked up by text again. Plain data with the defaults that
// `dtune init` prints. Sizes are in samples, times in Duration.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/space/search_space.h"
#include "dtune/study/data_spec.h"
#include "dtune/study/layers.h"
#include "dtune/study/objective_spec.h"
#include "dtune/study/parallel_spec.h"
#include "dtune/study/train_spec.h"

namespace dtune {

// In place of a model: any program.
struct CommandSpec {
  std::vector<std::string> argv;  // "{lr}" is replaced by the value
  std::string directory;          // working directory; "": the recipe's folder
  int steps = 0;                  // the horizon; 0: the program's last step
  std::map<std::string, std::string> environment;
};

struct SamplerSpec {
  std::string kind = "convlstm";
  std::map<std::string, Value> options;  // checked by the sampler's factory
};

struct SchedulerSpec {
  std::string kind = "freeze-thaw";
  std::map<std::string, Value> options;
};

// What a trial gets more of from step to step.
enum class FidelityKind { epochs, data_limit };

struct FidelitySpec {
  FidelityKind kind = FidelityKind::epochs;
  // data_limit: steps of a full training. Each is a training of its own, from
  // the start and through all epochs, on twice the images of the one before;
  // the last has all images.
  int levels = 4;
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
  // Trials that one slot trains at the same time; 0: as many as pay off on a
  // GPU, one on a CPU; 1: off.
  int fused = 1;
};

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
  FidelitySpec fidelity;
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

// The scheduler that goes best with a sampler.
const char* default_scheduler(const std::string& sampler);

const char* to_string(FidelityKind kind);
const char* to_string(FailedResults results);
const char* to_string(FinalKeep keep);
const char* to_string(ThresholdRule rule);

}  // namespace dtune
