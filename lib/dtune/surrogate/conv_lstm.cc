#include "dtune/surrogate/conv_lstm.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

std::array<LayerSize, 2> layer_sizes(const ConvLstmShape& shape) {
  return {{{kFeatures, shape.hidden}, {shape.hidden, shape.hidden}}};
}

// Normal numbers whose sums over `inputs` terms of size 1 have variance 1.
void fill_normal(Rng& rng, int inputs, std::span<float> weights) {
  const double deviation = 1 / std::sqrt(inputs);
  for (float& w : weights) w = static_cast<float>(deviation * rng.normal());
}

// All of a forward pass, and what a backward pass needs.
struct NetworkRun {
  std::vector<float> features;
  LayerRun first;
  LayerRun second;
  HeadRun head;
  HeadScratch head_scratch;
  LayerScratch first_scratch;
  LayerScratch second_scratch;
  std::vector<float> doutputs;
  std::vector<float> dfirst;
  std::vector<float> dsecond;
  std::vector<float> dinputs;
};

void run_network(const ConvLstmShape& shape,
                 const NetworkWeights<const float>& weights,
                 const LiftedStudy& study, NetworkRun& run) {
  const std::array<LayerSize, 2> sizes = layer_sizes(shape);
  run.features = lifted_features(study);
  run_layer(sizes[0], weights.layer[0], run.features, run.first);
  run_layer(sizes[1], weights.layer[1], run.first.hidden, run.second);
  run_head(shape, weights.head, run.first, run.second, run.features, run.head);
}

bool is_finite(const Correction& correction) {
  for (int k = 0; k < kMixtureParts; ++k) {
    if (!std::isfinite(correction.weight[k] + correction.shift[k] +
                       correction.scale[k])) {
      return false;
    }
  }
  return true;
}

bool is_valid_place(const LiftedStudy& study, size_t i) {
  return std::isfinite(study.mean[i]) && std::isfinite(study.deviation[i]) &&
         study.deviation[i] > 0;
}

// The loss of a forward pass; its gradient by the head's outputs, times
// `factor`, unless `doutputs` is empty.
double run_loss(const LiftedStudy& study, std::span<const float> target,
                std::span<const float> weight, const NetworkRun& run,
                double factor, std::span<float> doutputs) {
  DTUNE_CHECK(target.size() == size_t{kGridPlaces});
  DTUNE_CHECK(weight.size() == size_t{kGridPlaces});
  std::ranges::fill(doutputs, 0.0F);
  double total = 0;
  for (const float w : weight) total += w;
  if (!(total > 0)) return 0;
  double sum = 0;
  std::array<double, kOutputs> slope;
  for (int place = 0; place < kGridPlaces; ++place) {
    const size_t i = study_place(place);
    if (weight[i] == 0) continue;
    const size_t at = size_t{kOutputColumns} * place;
    const double deviation = study.deviation[i];
    const double z = (double{target[i]} - study.mean[i]) / deviation;
    const double share = weight[i] / total;
    const double surprise = mixture_loss(&run.head.outputs[at], z, &slope);
    sum += share * (surprise + std::log(deviation));
    if (doutputs.empty()) continue;
    for (size_t k = 0; k < kOutputs; ++k) {
      doutputs[at + k] = static_cast<float>(factor * share * slope[k]);
    }
  }
  return sum;
}

}  // namespace

// Buffers that no call uses now.
class ConvLstm::ScratchPool {
 public:
  // One of them, or a new one, until this is destroyed.
  class Loan {
   public:
    explicit Loan(ScratchPool& pool) : pool_(pool), run_(pool.take()) {}
    ~Loan() { pool_.give_back(std::move(run_)); }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    NetworkRun& operator*() const { return *run_; }
    NetworkRun* operator->() const { return run_.get(); }

   private:
    ScratchPool& pool_;
    std::unique_ptr<NetworkRun> run_;
  };

 private:
  std::unique_ptr<NetworkRun> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<NetworkRun>();
    std::unique_ptr<NetworkRun> run = std::move(free_.back());
    free_.pop_back();
    return run;
  }

  void give_back(std::unique_ptr<NetworkRun> run) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(run));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<NetworkRun>> free_;
};

ConvLstm::ConvLstm(const ConvLstmShape& shape)
    : shape_(shape), pool_(std::make_shared<ScratchPool>()) {
  check_shape(shape);
  const TensorSpec last = tensor_specs(shape).back();
  parameters_.resize(last.offset + last.size);
}

ConvLstm::ConvLstm(const ConvLstmShape& shape, uint64_t seed)
    : ConvLstm(shape) {
  const std::vector<TensorSpec> specs = tensor_specs(shape);
  Rng rng(mix_seed({seed, hash_text("conv_lstm")}));
  const std::span<float> all = parameters_;
  for (const size_t layer : {size_t{0}, size_t{3}}) {
    const TensorSpec& taps = specs[layer];
    const TensorSpec& pooled = specs[layer + 1];
    const int channels = static_cast<int>(taps.shape[3]);
    fill_normal(rng, kTaps * channels, all.subspan(taps.offset, taps.size));
    fill_normal(rng, 2 * channels, all.subspan(pooled.offset, pooled.size));
    // Gates that forget nothing at first (Gers et al. 2000,
    // doi 10.1162/089976600300015015).
    float* bias = &all[specs[layer + 2].offset];
    std::fill_n(bias + shape.hidden, shape.hidden, 1.0F);
  }
  const TensorSpec& hidden = specs[6];
  fill_normal(rng, static_cast<int>(hidden.shape[0]),
              all.subspan(hidden.offset, hidden.size));
}

std::vector<Correction> ConvLstm::correct(const LiftedStudy& study) const {
  const ScratchPool::Loan run(*pool_);
  run_network(shape_, weights_of(shape_, parameters_.data()), study, *run);
  std::vector<Correction> result(size_t{kGridPlaces}, kHeavyTails);
  for (int place = 0; place < kGridPlaces; ++place) {
    const size_t i = study_place(place);
    if (!is_valid_place(study, i)) continue;
    const Correction c =
        mixture_of(&run->head.outputs[size_t{kOutputColumns} * place]);
    if (is_finite(c)) result[i] = c;
  }
  return result;
}

double ConvLstm::loss(const LiftedStudy& study, std::span<const float> target,
                      std::span<const float> weight) const {
  const ScratchPool::Loan run(*pool_);
  run_network(shape_, weights_of(shape_, parameters_.data()), study, *run);
  return run_loss(study, target, weight, *run, 1, {});
}

double ConvLstm::loss_and_gradient(const LiftedStudy& study,
                                   std::span<const float> target,
                                   std::span<const float> weight,
                                   std::span<float> gradient,
                                   double factor) const {
  DTUNE_CHECK(gradient.size() == parameters_.size());
  const auto weights = weights_of(shape_, parameters_.data());
  const auto gradients = weights_of(shape_, gradient.data());
  const std::array<LayerSize, 2> sizes = layer_sizes(shape_);
  const ScratchPool::Loan run(*pool_);
  run_network(shape_, weights, study, *run);
  run->doutputs.resize(size_t{kGridPlaces} * kOutputColumns);
  const double loss =
      run_loss(study, target, weight, *run, factor, run->doutputs);

  const size_t states = size_t{kGridPlaces} * shape_.hidden;
  for (auto* state : {&run->dfirst, &run->dsecond, &run->dinputs}) {
    state->resize(states);
  }
  head_gradient(shape_, weights.head, run->head, run->doutputs, gradients.head,
                run->dfirst, run->dsecond, run->head_scratch);
  layer_gradient(sizes[1], weights.layer[1], run->second, run->dsecond,
                 gradients.layer[1], run->dinputs, run->second_scratch);
  for (size_t i = 0; i < states; ++i) run->dfirst[i] += run->dinputs[i];
  layer_gradient(sizes[0], weights.layer[0], run->first, run->dfirst,
                 gradients.layer[0], {}, run->first_scratch);
  return loss;
}

}  // namespace dtune
