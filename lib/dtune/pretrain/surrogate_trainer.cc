#include "dtune/pretrain/surrogate_trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/pretrain/adam.h"
#include "dtune/pretrain/conv_lstm_graph.h"
#include "dtune/train/torch_settings.h"

namespace dtune {
namespace {

double seconds_since(MonoTime start) {
  return to_seconds(system_clock().now() - start);
}

// Weighted mean of ln density of the targets.
struct Mean {
  double sum = 0;
  double weight = 0;

  void add(double value, double w) {
    sum += w * value;
    weight += w;
  }
  double value() const { return weight > 0 ? sum / weight : 0; }
};

double score(const Correction& correction, const TrainingSample& s, size_t i) {
  const double deviation = double{s.study.deviation[i]};
  const double z = (double{s.target[i]} - double{s.study.mean[i]}) / deviation;
  return log_density(correction, z) - std::log(deviation);
}

double heavy_loss(const TrainingSample& s) {
  Mean mean;
  for (size_t i = 0; i < s.target.size(); ++i) {
    if (s.weight[i] > 0)
      mean.add(score(kHeavyTails, s, i), double{s.weight[i]});
  }
  return -mean.value();
}

LogScores scores_of(const ConvLstm& network, const TrainingSample& s) {
  const std::vector<Correction> corrections = network.correct(s.study);
  const size_t last = s.target.size() - kGridVoxels;
  Mean network_final;
  Mean heavy_final;
  Mean network_all;
  Mean heavy_all;
  for (size_t i = 0; i < s.target.size(); ++i) {
    const double weight = double{s.weight[i]};
    const double by_network = score(corrections[i], s, i);
    const double by_heavy = score(kHeavyTails, s, i);
    network_all.add(by_network, weight);
    heavy_all.add(by_heavy, weight);
    if (i < last) continue;
    network_final.add(by_network, weight);
    heavy_final.add(by_heavy, weight);
  }
  return {network_final.value(), heavy_final.value(), network_all.value(),
          heavy_all.value()};
}

// One training.
class Training {
 public:
  Training(const StudySampler& sampler,
           const std::vector<TrainingSample>& validation,
           const SurrogateTrainOptions& options)
      : sampler_(sampler),
        validation_(validation),
        options_(options),
        network_(options.shape, options.seed) {}

  TrainedSurrogate run();

 private:
  size_t chunk_samples() const {
    return options_.draws * sampler_.samples_of_draw();
  }
  uint64_t reckon_samples();
  std::vector<TrainingSample> draw_chunk(uint64_t chunk) const;
  // Of the mean loss of a batch, which is returned; to gradient_.
  double gradient_of(std::span<const TrainingSample> batch);
  void train_on(std::span<const TrainingSample> batch, Adam& adam);
  void average();
  void report(uint64_t total);

  const StudySampler& sampler_;
  const std::vector<TrainingSample>& validation_;
  const SurrogateTrainOptions& options_;
  MonoTime start_ = system_clock().now();
  ConvLstm network_;
  std::vector<float> averaged_;
  std::vector<float> gradient_;
  uint64_t done_ = 0;
  uint64_t steps_ = 0;
  int reports_ = 0;
  Mean loss_;
  Mean heavy_;
};

std::vector<TrainingSample> Training::draw_chunk(uint64_t chunk) const {
  const uint64_t first = mix_seed({options_.seed, hash_text("chunk"), chunk});
  std::vector<TrainingSample> samples =
      draw_samples(sampler_, first, options_.draws, options_.threads);
  Rng rng(first);
  rng.shuffle(std::span(samples));
  return samples;
}

// A batch is cut into pieces of the same size whatever the number of threads,
// each of which computes with one; their sums are added in order.
double Training::gradient_of(std::span<const TrainingSample> batch) {
  constexpr size_t kPiece = 4;
  const size_t pieces = (batch.size() + kPiece - 1) / kPiece;
  const auto weights = at::from_blob(
      network_.parameters().data(),
      {static_cast<int64_t>(network_.parameter_count())}, at::kFloat);
  std::vector<double> losses(pieces);
  std::vector<at::Tensor> gradients(pieces);
  const auto compute = [&](size_t i) {
    at::init_num_threads();  // one, in this thread too
    const size_t first = i * kPiece;
    const at::Tensor leaf = weights.clone().requires_grad_();
    const at::Tensor loss =
        conv_lstm_losses(
            network_.shape(), leaf,
            batch.subspan(first, std::min(kPiece, batch.size() - first)))
            .sum() /
        static_cast<double>(batch.size());
    loss.backward();
    losses[i] = loss.item<double>();
    gradients[i] = leaf.grad();
  };
  parallel_for(pieces, compute, options_.threads);
  at::Tensor sum = gradients[0];
  for (size_t i = 1; i < pieces; ++i) sum += gradients[i];
  const float* first = sum.data_ptr<float>();
  gradient_.assign(first, first + sum.numel());
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void Training::average() {
  const std::span<const float> now = network_.parameters();
  if (averaged_.empty()) averaged_.assign(now.begin(), now.end());
  // The first steps count little: they are far from the end.
  const auto steps = static_cast<double>(steps_);
  const auto keep = static_cast<float>(
      std::min(options_.average, (1 + steps) / (10 + steps)));
  for (size_t i = 0; i < now.size(); ++i) {
    averaged_[i] = keep * averaged_[i] + (1 - keep) * now[i];
  }
}

void Training::train_on(std::span<const TrainingSample> batch, Adam& adam) {
  loss_.add(gradient_of(batch), 1);
  for (const TrainingSample& s : batch) heavy_.add(heavy_loss(s), 1);
  adam.step(network_.parameters(), gradient_);
  ++steps_;
  average();
  done_ += batch.size();
}

void Training::report(uint64_t total) {
  if (!options_.progress) return;
  ConvLstm judged = network_;
  std::copy(averaged_.begin(), averaged_.end(), judged.parameters().begin());
  SurrogateTrainProgress progress = {
      done_, total, seconds_since(start_), loss_.value(), heavy_.value(), {}};
  progress.validation = log_scores(judged, validation_, options_.threads);
  options_.progress(progress);
  loss_ = {};
  heavy_ = {};
}

uint64_t Training::reckon_samples() {
  if (options_.samples > 0) return options_.samples;
  const auto before = system_clock().now();
  const std::vector<TrainingSample> chunk = draw_chunk(0);
  const double drawing = seconds_since(before);
  constexpr size_t kTrial = 4;
  const auto middle = system_clock().now();
  for (size_t i = 0; i < kTrial; ++i) {
    gradient_of(std::span(chunk).first(options_.batch));
  }
  const double training = seconds_since(middle);
  const double one = drawing / static_cast<double>(chunk.size()) +
                     training / static_cast<double>(kTrial * options_.batch);
  const double left = options_.minutes * 60 - seconds_since(start_);
  return static_cast<uint64_t>(std::max(left, 0.0) / one);
}

TrainedSurrogate Training::run() {
  const uint64_t wanted = reckon_samples();
  const uint64_t chunks =
      std::max<uint64_t>(1, (wanted + chunk_samples() / 2) / chunk_samples());
  const size_t batches = chunk_samples() / options_.batch;
  const uint64_t total = chunks * batches * options_.batch;
  AdamOptions adam_options;
  adam_options.rate = options_.rate;
  adam_options.steps = static_cast<int64_t>(chunks * batches);
  adam_options.warm_up =
      static_cast<double>(std::min<int64_t>(100, adam_options.steps / 10 + 1));
  Adam adam(network_.parameter_count(), adam_options);
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::vector<TrainingSample> samples = draw_chunk(chunk);
    for (size_t i = 0; i < batches; ++i) {
      train_on(std::span(samples).subspan(i * options_.batch, options_.batch),
               adam);
    }
    const auto due = static_cast<int>(
        (chunk + 1) * static_cast<uint64_t>(options_.reports) / chunks);
    if (due > reports_) report(total);
    reports_ = due;
  }
  std::copy(averaged_.begin(), averaged_.end(), network_.parameters().begin());
  return {network_, total};
}

}  // namespace

LogScores log_scores(const ConvLstm& network,
                     const std::vector<TrainingSample>& samples,
                     unsigned threads) {
  std::vector<LogScores> each(samples.size());
  parallel_for(
      samples.size(),
      [&](size_t i) { each[i] = scores_of(network, samples[i]); }, threads);
  LogScores sum;
  for (const LogScores& one : each) {
    sum.network_final += one.network_final / double(samples.size());
    sum.heavy_final += one.heavy_final / double(samples.size());
    sum.network_all += one.network_all / double(samples.size());
    sum.heavy_all += one.heavy_all / double(samples.size());
  }
  return sum;
}

TrainedSurrogate train_surrogate(const StudySampler& sampler,
                                 const std::vector<TrainingSample>& validation,
                                 const SurrogateTrainOptions& options) {
  DTUNE_CHECK(options.samples > 0 || options.minutes > 0);
  DTUNE_CHECK(sampler.samples_of_draw() * options.draws >= options.batch);
  prepare_process();
  const SingleThread exactly;
  return Training(sampler, validation, options).run();
}

}  // namespace dtune
