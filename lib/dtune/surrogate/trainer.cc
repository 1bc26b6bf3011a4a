#include "dtune/surrogate/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iterator>

#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/surrogate/adam.h"

namespace dtune {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
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
           const TrainOptions& options)
      : sampler_(sampler),
        validation_(validation),
        options_(options),
        network_(options.shape, options.seed) {}

  TrainedNetwork run();

 private:
  size_t chunk_samples() const {
    return options_.draws * sampler_.samples_of_draw();
  }
  uint64_t reckon_samples();
  std::vector<TrainingSample> draw_chunk(uint64_t chunk) const;
  // Adds up the gradient of a batch in the order of its samples.
  double gradient_of(std::span<const TrainingSample> batch);
  void train_on(std::span<const TrainingSample> batch, Adam& adam);
  void average();
  void report(uint64_t total);

  const StudySampler& sampler_;
  const std::vector<TrainingSample>& validation_;
  const TrainOptions& options_;
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  ConvLstm network_;
  std::vector<float> averaged_;
  std::vector<std::vector<float>> gradients_;  // of each sample of a batch
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

double Training::gradient_of(std::span<const TrainingSample> batch) {
  const double share = 1.0 / static_cast<double>(batch.size());
  std::vector<double> losses(batch.size());
  gradients_.resize(options_.batch);
  parallel_for(
      batch.size(),
      [&](size_t i) {
        gradients_[i].assign(network_.parameter_count(), 0.0F);
        const TrainingSample& s = batch[i];
        losses[i] = network_.loss_and_gradient(s.study, s.target, s.weight,
                                               gradients_[i], share);
      },
      options_.threads);
  double sum = losses[0];
  for (size_t i = 1; i < batch.size(); ++i) {
    sum += losses[i];
    std::transform(gradients_[0].begin(), gradients_[0].end(),
                   gradients_[i].begin(), gradients_[0].begin(), std::plus<>());
  }
  return sum * share;
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
  adam.step(network_.parameters(), gradients_[0]);
  ++steps_;
  average();
  done_ += batch.size();
}

void Training::report(uint64_t total) {
  if (!options_.progress) return;
  ConvLstm judged = network_;
  std::copy(averaged_.begin(), averaged_.end(), judged.parameters().begin());
  TrainProgress progress = {
      done_, total, seconds_since(start_), loss_.value(), heavy_.value(), {}};
  progress.validation = log_scores(judged, validation_, options_.threads);
  options_.progress(progress);
  loss_ = {};
  heavy_ = {};
}

uint64_t Training::reckon_samples() {
  if (options_.samples > 0) return options_.samples;
  const auto before = std::chrono::steady_clock::now();
  const std::vector<TrainingSample> chunk = draw_chunk(0);
  const double drawing = seconds_since(before);
  constexpr size_t kTrial = 4;
  const auto middle = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kTrial; ++i) {
    gradient_of(std::span(chunk).first(options_.batch));
  }
  const double training = seconds_since(middle);
  const double one = drawing / static_cast<double>(chunk.size()) +
                     training / static_cast<double>(kTrial * options_.batch);
  const double left = options_.minutes * 60 - seconds_since(start_);
  return static_cast<uint64_t>(std::max(left, 0.0) / one);
}

TrainedNetwork Training::run() {
  const uint64_t wanted = reckon_samples();
  const uint64_t chunks =
      std::max<uint64_t>(1, (wanted + chunk_samples() / 2) / chunk_samples());
  const size_t batches = chunk_samples() / options_.batch;
  const uint64_t total = chunks * batches * options_.batch;
  AdamOptions adam_options;
  adam_options.rate = options_.rate;
  adam_options.steps = static_cast<int64_t>(chunks * batches);
  adam_options.warm_up = std::min<int64_t>(100, adam_options.steps / 10 + 1);
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

std::vector<TrainingSample> draw_samples(const StudySampler& sampler,
                                         uint64_t first_seed, size_t draws,
                                         unsigned threads) {
  std::vector<std::vector<TrainingSample>> parts(draws);
  parallel_for(
      draws,
      [&](size_t i) {
        parts[i] = sampler.draw(mix_seed({first_seed, i}));
      },
      threads);
  std::vector<TrainingSample> samples;
  for (std::vector<TrainingSample>& part : parts) {
    std::move(part.begin(), part.end(), std::back_inserter(samples));
  }
  return samples;
}

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

TrainedNetwork train_network(const StudySampler& sampler,
                             const std::vector<TrainingSample>& validation,
                             const TrainOptions& options) {
  DTUNE_CHECK(options.samples > 0 || options.minutes > 0);
  DTUNE_CHECK(sampler.samples_of_draw() * options.draws >= options.batch);
  return Training(sampler, validation, options).run();
}

}  // namespace dtune
