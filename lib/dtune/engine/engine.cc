// What libdtune_train.so shows of itself: one C function.
#include <ATen/ATen.h>
#include <torch/version.h>

#include "dtune/engine/runner.h"
#include "dtune/pretrain/speed_trainer.h"
#include "dtune/pretrain/surrogate_trainer.h"
#include "dtune/train/device.h"
#include "dtune/train/evaluate.h"
#include "dtune/train/failure.h"
#include "dtune/train/fused_trainer.h"
#include "dtune/train/plugin_entry.h"
#include "dtune/train/predict.h"
#include "dtune/train/torch_settings.h"

namespace dtune {
namespace {

class TorchEngine final : public Engine {
 public:
  std::unique_ptr<TrialRunner> make_runner(int threads) override {
    return make_cnn_runner(threads, fused_, mapped_);
  }

  std::map<std::string, double> evaluate(const EvalRequest& request) override {
    return evaluate_model(request);
  }

  std::unique_ptr<Predictor> make_predictor(const std::filesystem::path& model,
                                            const Recipe& recipe,
                                            int threads) override {
    return make_model_predictor(model, recipe, threads);
  }

  TrainedSurrogate train_surrogate(
      const StudySampler& sampler,
      const std::vector<TrainingSample>& validation,
      const SurrogateTrainOptions& options) override {
    return dtune::train_surrogate(sampler, validation, options);
  }

  SpeedLstm train_speed_predictor(const SpeedTrainOptions& options) override {
    return train_speed_lstm(options);
  }

  EngineInfo info() override {
    prepare_process();
    EngineInfo info;
    info.torch_version = TORCH_VERSION;
    info.blas = blas_name();
    info.optimized_blas = has_optimized_blas();
    info.gflops_per_core = matrix_rate();
    info.mkldnn = at::globalContext().hasMKLDNN();
    info.cuda_problem = cuda_problem();
    return info;
  }

 private:
  FusedTrainer fused_;
  MappedData mapped_;
};

}  // namespace
}  // namespace dtune

extern "C" __attribute__((visibility("default"))) dtune::Engine*
dtune_train_engine(uint64_t fingerprint) {
  if (fingerprint != dtune::plugin_fingerprint()) return nullptr;
  static dtune::TorchEngine engine;
  return &engine;
}
