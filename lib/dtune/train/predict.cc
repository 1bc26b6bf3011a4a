#include "dtune/train/predict.h"

#include "dtune/study/model_metadata.h"
#include "dtune/train/device.h"
#include "dtune/train/evaluate.h"
#include "dtune/train/failure.h"
#include "dtune/train/model_file.h"
#include "dtune/train/setup.h"
#include "dtune/train/torch_settings.h"

namespace dtune {
namespace {

class ModelPredictor final : public Predictor {
 public:
  ModelPredictor(const SafetensorsFile& file, const ModelMetadata& model,
                 const Recipe& recipe)
      : input_(model.input),
        device_(find_device(recipe.train.device)),
        network_(
            expand_model(recipe.model, input_,
                         static_cast<int>(model.class_names.size())),
            input_,
            NetworkOptions{.device = device_,
                           .compute = compute_type(recipe.train.precision)}),
        scale_(input_, {model.mean, model.deviation}) {
    load_weights(file, network_);
  }

  int64_t batch_size() const override { return evaluation_batch_size(input_); }

  std::vector<double> probabilities(std::span<const uint8_t> images) override {
    const auto count = static_cast<int64_t>(images.size()) / input_.elements();
    DTUNE_CHECK(count >= 1 && count <= batch_size());
    const at::Tensor x = batch_tensor(count, input_);
    scale_.apply(images.data(), count * input_.height, x.data_ptr<float>());
    const at::Tensor answer =
        at::softmax(network_.forward(x.to(device_), nullptr, PassContext{})
                        .to(at::kCPU, at::kDouble),
                    1)
            .contiguous();
    const double* first = answer.data_ptr<double>();
    return {first, first + answer.numel()};
  }

 private:
  Shape input_;
  at::Device device_;
  Network network_;
  PixelScale scale_;
};

}  // namespace

std::unique_ptr<Predictor> make_model_predictor(
    const std::filesystem::path& model, const Recipe& recipe, int threads) {
  use({.threads = threads,
       .deterministic = recipe.deterministic,
       .tf32 = allows_tf32(recipe.train.precision)});
  const SafetensorsFile file(model);
  return as_trial_failure(model.string(), [&] {
    return std::make_unique<ModelPredictor>(file, read_model_metadata(file),
                                            recipe);
  });
}

}  // namespace dtune
