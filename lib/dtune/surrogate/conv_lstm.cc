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

// All of a forward pass.
struct NetworkRun {
  std::vector<float> features;
  LayerRun first;
  LayerRun second;
  HeadRun head;
};

void run_network(const ConvLstmShape& shape, const NetworkWeights& weights,
                 const GridFeatures& study, NetworkRun& run) {
  const std::array<LayerSize, 2> sizes = layer_sizes(shape);
  run.features = input_features(study);
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

bool is_valid_place(const GridFeatures& study, size_t i) {
  return std::isfinite(study.mean[i]) && std::isfinite(study.deviation[i]) &&
         study.deviation[i] > 0;
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

std::vector<Correction> ConvLstm::correct(const GridFeatures& study) const {
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

}  // namespace dtune
