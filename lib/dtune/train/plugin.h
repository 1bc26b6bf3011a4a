// The interface of everything that needs LibTorch: one private shared library,
// loaded on demand, so that commands that train nothing start in milliseconds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/trial_runner.h"

namespace dtune {

class SpeedLstm;               // speed/speed_lstm.h
class StudySampler;            // surrogate/study_sampler.h
struct SpeedTrainOptions;      // pretrain/speed_trainer.h
struct SurrogateTrainOptions;  // pretrain/surrogate_trainer.h
struct TrainedSurrogate;       // pretrain/surrogate_trainer.h
struct TrainingSample;         // surrogate/study_sampler.h

// What `dtune doctor` and reports say of the engine.
struct EngineInfo {
  std::string torch_version;
  std::string blas;             // "OpenBLAS 0.3.21 (SkylakeX)" or so
  bool optimized_blas = false;  // not the reference implementation
  double gflops_per_core = 0;   // measured: torch_settings.h, matrix_rate()
  bool mkldnn = false;
  std::string cuda_problem;  // why it cannot use the first GPU; "": it can
};

// `dtune eval`: a model file and what to judge it on.
struct EvalRequest {
  std::filesystem::path model;  // model.safetensors
  Recipe recipe;                // that it was trained by
  std::filesystem::path prepared_data;
  std::string split = "test";  // train, validation, test
  int threads = 1;
};

// A trained model that answers for images. Not thread-safe.
class Predictor {
 public:
  virtual ~Predictor() = default;
  // The largest number of images of one call. Answers to full batches are those
  // of `dtune eval` to the last bit with one thread.
  virtual int64_t batch_size() const = 0;
  // images: [N, height, width, channels] as the model takes them, 1 <= N <=
  // batch_size(). Returns softmax probabilities, [N, classes].
  virtual std::vector<double> probabilities(
      std::span<const uint8_t> images) = 0;
};

// Implemented in engine/engine.cc inside the library. Thread-safe only as said.
class Engine {
 public:
  virtual ~Engine() = default;
  // Trials that runners of this engine train at the same time are computed as
  // one where their shapes are equal (train/fused_trainer.h).
  virtual std::unique_ptr<TrialRunner> make_runner(int threads) = 0;
  // The metrics of metric_names() (study/metrics.h) with the split's prefix, as
  // in the training's own report.
  virtual std::map<std::string, double> evaluate(
      const EvalRequest& request) = 0;
  // `recipe`: the model's own. Throws as evaluate() does for a file that is
  // damaged or does not fit its recipe.
  virtual std::unique_ptr<Predictor> make_predictor(
      const std::filesystem::path& model, const Recipe& recipe,
      int threads) = 0;
  // The networks whose weights are shipped: see pretrain/.
  virtual TrainedSurrogate train_surrogate(
      const StudySampler& sampler,
      const std::vector<TrainingSample>& validation,
      const SurrogateTrainOptions& options) = 0;
  virtual SpeedLstm train_speed_predictor(const SpeedTrainOptions& options) = 0;
  virtual EngineInfo info() = 0;
};

// Loads libdtune_train.so (beside the program, ../lib/dtune, or where
// DTUNE_LIBRARY_PATH says) once per process; throws Error(study) with what the
// loader said and the remedy. The engine lives as long as the process.
Engine& load_engine();

// The same, to train this recipe: where it is deterministic,
// CUBLAS_WORKSPACE_CONFIG is set before LibTorch reads it, unless it is set
// already. To be called before other threads read the environment.
Engine& load_engine_for(const Recipe& recipe);

// Throws as load_engine() does where the library is not installed; loads
// nothing.
void check_engine_installed();

}  // namespace dtune
