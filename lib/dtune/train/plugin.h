// The door to everything that needs LibTorch: one private shared library,
// loaded on demand, so that commands that train nothing start in milliseconds.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "dtune/study/trial_runner.h"

namespace dtune {

// What `dtune doctor` and reports say of the engine.
struct EngineInfo {
  std::string torch_version;
  std::string blas;            // "OpenBLAS 0.3.21 (SkylakeX)" or so
  double gflops_per_core = 0;  // measured: one sgemm of 768, best of three
  bool mkldnn = false;
  bool cuda_compiled = false;
  std::vector<std::string> cuda_devices;  // names, or empty
};

// `dtune eval`: a model file and what to judge it on.
struct EvalRequest {
  std::filesystem::path model;  // model.safetensors
  Recipe recipe;                // from the recipe beside it
  std::filesystem::path prepared_data;
  std::string split = "test";  // train, validation, test
  int threads = 1;
};

// Implemented in engine/engine.cc inside the library. Thread-safe only as said.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::unique_ptr<TrialRunner> make_runner(int threads) = 0;
  // "test_accuracy", "test_loss", "test_auc" as in the training's own report.
  virtual std::map<std::string, double> evaluate(
      const EvalRequest& request) = 0;
  virtual EngineInfo info() = 0;
};

// Loads libdtune_train.so (beside the program, ../lib/dtune, or where
// DTUNE_LIBRARY_PATH says) once per process; throws Error(study) with what the
// loader said and the remedy. The engine lives as long as the process.
Engine& load_engine();

}  // namespace dtune
