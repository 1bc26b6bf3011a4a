// The program's own inference and LibTorch's compute the same.
#include <algorithm>
#include <cmath>
#include <limits>

#include "surrogate/feature_sample.h"
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "dtune/pretrain/adam.h"
#include "dtune/pretrain/conv_lstm_graph.h"
#include "dtune/pretrain/speed_lstm_graph.h"
#include "dtune/speed/speed_traces.h"
#include "dtune/surrogate/conv_lstm_parts.h"
#include "dtune/surrogate/shipped.h"

using namespace dtune;  // NOLINT: a test

namespace {

at::Tensor flat(std::span<const float> values) {
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()));
}

TrainingSample sample_of(uint64_t seed, double lean = 1) {
  const FeatureSample sample = feature_sample(seed, lean);
  return {
      .study = sample.study, .target = sample.target, .weight = sample.weight};
}

// A network whose last map is not zero any more.
ConvLstm moved(uint64_t seed) {
  ConvLstm network({.hidden = 8, .head = 16}, seed);
  Rng rng(seed);
  for (float& p : network.parameters()) {
    p += static_cast<float>(0.05 * rng.normal());
  }
  return network;
}

double loss_of(const ConvLstm& network, const TrainingSample& sample) {
  return conv_lstm_losses(network.shape(), flat(network.parameters()),
                          {&sample, 1})
      .item<double>();
}

// By the program's own inference.
double own_loss(const ConvLstm& network, const TrainingSample& sample) {
  const auto answer = network.correct(sample.study);
  double sum = 0;
  double total = 0;
  for (size_t i = 0; i < kFeaturePlaces; ++i) {
    const double deviation = sample.study.deviation[i];
    const double z =
        (double{sample.target[i]} - sample.study.mean[i]) / deviation;
    sum -= sample.weight[i] * (log_density(answer[i], z) - std::log(deviation));
    total += sample.weight[i];
  }
  return sum / total;
}

}  // namespace

TEST_CASE("LibTorch predicts as the shipped network does") {
  const ConvLstm& network = shipped_network();
  const TrainingSample a = sample_of(1), b = sample_of(2);
  const GridFeatures* const studies[] = {&a.study, &b.study};
  const at::Tensor outputs =
      conv_lstm_outputs(network.shape(), flat(network.parameters()), studies)
          .contiguous();
  REQUIRE(outputs.sizes() == at::IntArrayRef{2, kGridPlaces, kOutputs});
  double largest = 0;
  for (int s = 0; s < 2; ++s) {
    const auto own = network.correct(*studies[s]);
    for (int i = 0; i < kGridPlaces; ++i) {
      const Correction theirs = mixture_of(outputs.data_ptr<float>() +
                                           (s * kGridPlaces + i) * kOutputs);
      for (int k = 0; k < kMixtureParts; ++k) {
        // Sums of some hundred products in single precision, eight frames deep.
        REQUIRE(std::abs(own[i].weight[k] - theirs.weight[k]) < 1e-4);
        REQUIRE(std::abs(own[i].shift[k] - theirs.shift[k]) < 1e-3);
        REQUIRE(std::abs(std::log(own[i].scale[k] / theirs.scale[k])) < 1e-3);
        largest = std::max(largest, std::abs(own[i].shift[k]));
      }
    }
  }
  CHECK(largest > 0.1);  // it is not all zeros that agree
}

TEST_CASE("the loss is the mean of minus the predicted log density") {
  for (const uint64_t seed : {1, 2}) {
    const TrainingSample sample = sample_of(seed);
    for (const ConvLstm& network : {moved(seed), shipped_network()}) {
      CHECK(loss_of(network, sample) ==
            doctest::Approx(own_loss(network, sample)).epsilon(1e-5));
    }
  }
}

TEST_CASE("a sample without any weight teaches nothing") {
  const ConvLstm network = moved(7);
  TrainingSample sample = sample_of(7);
  std::ranges::fill(sample.weight, 0.0F);
  std::ranges::fill(sample.target, std::numeric_limits<float>::quiet_NaN());
  const at::Tensor leaf = flat(network.parameters()).requires_grad_();
  const at::Tensor loss =
      conv_lstm_losses(network.shape(), leaf, {&sample, 1}).sum();
  CHECK(loss.item<double>() == 0);
  loss.backward();
  CHECK(leaf.grad().norm().item<double>() == 0);
}

TEST_CASE("a batch has the losses of its samples") {
  const ConvLstm network = moved(3);
  const std::vector<TrainingSample> samples = {sample_of(1), sample_of(2)};
  const at::Tensor losses =
      conv_lstm_losses(network.shape(), flat(network.parameters()), samples);
  for (int i = 0; i < 2; ++i) {
    CHECK(losses[i].item<double>() ==
          doctest::Approx(loss_of(network, samples[size_t(i)])).epsilon(1e-6));
  }
}

TEST_CASE("sixty steps lower the loss of four samples clearly") {
  ConvLstm network({.hidden = 4, .head = 16}, 14);
  const std::vector<TrainingSample> samples = {
      sample_of(1, 3), sample_of(2, 3), sample_of(3, 3), sample_of(4, 3)};
  Adam adam(network.parameter_count(),
            {.rate = 2e-2, .warm_up = 6, .steps = 60});
  double first = 0;
  double last = 0;
  for (int step = 0; step < 60; ++step) {
    const at::Tensor leaf = flat(network.parameters()).requires_grad_();
    const at::Tensor loss =
        conv_lstm_losses(network.shape(), leaf, samples).mean();
    loss.backward();
    last = loss.item<double>();
    if (step == 0) first = last;
    const at::Tensor gradient = leaf.grad();
    adam.step(network.parameters(),
              {gradient.data_ptr<float>(), network.parameter_count()});
  }
  // Knowing the lean and the noise's deviation takes about .5 nats off.
  CHECK(last < first - 0.4);
}

TEST_CASE("LibTorch predicts speeds as the shipped network does") {
  const SpeedLstm& network = shipped_speed_lstm();
  const std::span<const double> all = network.parameters();
  const at::Tensor parameters =
      at::tensor(at::ArrayRef<double>(all.data(), all.size()), at::kDouble);
  // Of different lengths: the shorter ones are filled up.
  std::vector<std::vector<SpeedStep>> traces;
  for (const size_t rounds : {60, 20, 2}) {
    traces.push_back(
        speed_steps(make_speed_trace(Slowness::mixed, rounds, rounds)));
  }
  const SpeedBatch batch = speed_batch(traces, at::kDouble);
  const at::Tensor offsets =
      speed_offsets(network.hidden(), parameters, batch).contiguous();
  const SpeedLoss loss{.tilt = 0.3};
  double mean = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    SpeedLstmState state = network.start();
    for (size_t t = 0; t < traces[i].size(); ++t) {
      const SpeedMoment& moment = traces[i][t].moment;
      const double own = network.step(moment, state) - moment.level;
      CHECK(offsets[int64_t(t)][int64_t(i)].item<double>() ==
            doctest::Approx(own).epsilon(1e-9).scale(1));
    }
    mean += mean_loss(network, traces[i], loss) / 3;
  }
  CHECK(speed_loss(network.hidden(), parameters, batch, loss).item<double>() ==
        doctest::Approx(mean).epsilon(1e-9));
}
