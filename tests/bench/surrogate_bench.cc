// How long the network takes for a whole cube: eight frames of 168 voxels, one
// core. Prints a row for bench_runner.
//
// The baseline is the same network's two convolutions alone, as plain loops
// that the compiler may vectorise. Expected with AVX-512: 4 ms against 30 ms;
// the limit set is 100 ms.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/kernels/patch_product.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

constexpr double kLimit = 100;  // ms

GridFeatures make_study() {
  constexpr size_t kPlaces = size_t{kGridFrames} * kGridVoxels;
  Rng rng(1);
  GridFeatures study;
  study.best = 0.8;
  study.scale = 0.1;
  for (size_t i = 0; i < kPlaces; ++i) {
    const bool seen = rng.below(100) == 0;
    study.mean.push_back(static_cast<float>(0.5 + 0.1 * rng.normal()));
    study.deviation.push_back(static_cast<float>(0.02 + 0.1 * rng.uniform()));
    study.seen.push_back(seen ? 1.0F : 0.0F);
    study.value.push_back(seen ? study.mean.back() : 0.0F);
    study.pending.push_back(0.0F);
  }
  return study;
}

// One convolution of a frame, 3x3x3 in a zero frame, as the equation says.
void convolve(const std::vector<float>& x, int channels, int outputs,
              const std::vector<float>& weights, std::vector<float>& y) {
  constexpr int kRow = kGridDropout + 2;
  constexpr int kPlane = (kGridL2 + 2) * kRow;
  for (int v = 0; v < kGridVoxels; ++v) {
    const int corner = v / (kGridDropout * kGridL2) * kPlane +
                       v / kGridDropout % kGridL2 * kRow + v % kGridDropout;
    float* to = &y[size_t{1} * v * outputs];
    for (int k = 0; k < 27; ++k) {
      const int from = corner + k / 9 * kPlane + k / 3 % 3 * kRow + k % 3;
      for (int c = 0; c < channels; ++c) {
        const float value = x[size_t{1} * from * channels + c];
        const float* w = &weights[(size_t{1} * k * channels + c) * outputs];
        for (int o = 0; o < outputs; ++o) to[o] += value * w[o];
      }
    }
  }
}

template <typename Work>
double best_ms(int times, Work work) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto began = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - began;
    best = std::min(best, spent.count());
  }
  return best;
}

double plain_ms(int inputs, int hidden) {
  const int channels = inputs + hidden;
  const int outputs = 4 * hidden;
  constexpr size_t kPadded =
      size_t{kGridLr + 2} * (kGridL2 + 2) * (kGridDropout + 2);
  const std::vector<float> x(kPadded * channels, 0.1F);
  const std::vector<float> weights(size_t{27} * channels * outputs, 0.1F);
  std::vector<float> y(size_t{kGridVoxels} * outputs);
  const double ms = best_ms(10, [&] {
    for (int t = 0; t < kGridFrames; ++t) {
      convolve(x, channels, outputs, weights, y);
    }
  });
  // A use of the result, without which nothing would be computed.
  if (y[0] < 0) std::fprintf(stderr, "negative\n");
  return ms;
}

}  // namespace

int main() try {
  const ConvLstm network(ConvLstmShape(), 1);
  const GridFeatures study = make_study();
  const double ours = best_ms(20, [&] { network.correct(study); });
  const int hidden = network.shape().hidden;
  const double baseline = plain_ms(12, hidden) + plain_ms(hidden, hidden);
  fmt::print(R"({{"name": "surrogate: whole cube predicted", "ours": {:.2f}, )"
             R"("baseline": {:.2f}, "ratio": {:.2f}, "goal": 1.0, "ok": {}, )"
             R"("unit": "ms", "detail": "{} parameters, {} kernels, one core; )"
             R"(baseline is the convolutions alone as plain loops; the limit )"
             R"(set is {} ms"}})"
             "\n",
             ours, baseline, baseline / ours, ours < kLimit && ours < baseline,
             network.parameter_count(), patch_kernels().name, kLimit);
  return 0;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
