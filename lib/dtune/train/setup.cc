#include "dtune/train/setup.h"

#include <string>

#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/train/loss.h"
#include "dtune/train/schedule.h"

namespace dtune {

at::ScalarType compute_type(Precision precision) {
  return precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
}

bool allows_tf32(Precision precision) {
  return precision == Precision::automatic || precision == Precision::tf32;
}

void check_precision(Precision precision, const at::Device& device) {
  if (precision != Precision::tf32 || !device.is_cpu()) return;
  throw Error(ErrorKind::config,
              "train.precision: 'tf32' is a GPU's, but this trial is trained "
              "on the CPU (use auto, fp32 or bf16)");
}

uint64_t seed_for(uint64_t seed, std::string_view purpose) {
  return mix_seed({seed, hash_text(purpose)});
}

PassContext training_pass(uint64_t seed, int64_t batch_number) {
  return {.training = true,
          .seed = mix_seed({seed_for(seed, "dropout"),
                            static_cast<uint64_t>(batch_number)})};
}

std::vector<Split> training_splits(bool with_validation) {
  if (with_validation) return {Split::train, Split::validation};
  return {Split::train};
}

std::vector<double> class_weights(const DataSpec& data,
                                  const BatchSource& source) {
  if (!data.balance) return {};
  return balanced_weights(source.class_counts());
}

at::Tensor batch_tensor(int64_t samples, const Shape& shape) {
  return at::empty({samples, shape.channels, shape.height, shape.width},
                   at::TensorOptions(at::kFloat)
                       .memory_format(at::MemoryFormat::ChannelsLast));
}

double learning_rate(const TrainSpec& train, const TrainingProgress& progress,
                     const BatchRange& batch) {
  const double middle = static_cast<double>(progress.position) +
                        static_cast<double>(batch.size) / 2;
  return train.lr *
         schedule_factor(train.schedule,
                         middle / static_cast<double>(progress.samples),
                         progress.epochs);
}

TrialFailure diverged(const char* what, double value, const TrainSpec& train,
                      const TrainingProgress& progress,
                      const BatchRange& batch) {
  return {Reason::diverged,
          fmt::format("diverged: the {} became {} in epoch {:.2f} (batch {}) "
                      "at a learning rate of {:.3g} (use a smaller lr, a "
                      "warm-up or clip_norm)",
                      what, value,
                      static_cast<double>(progress.position) /
                          static_cast<double>(progress.samples),
                      batch.number + 1, learning_rate(train, progress, batch))};
}

}  // namespace dtune
