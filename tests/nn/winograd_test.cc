// The kernels of every instruction set that this CPU has, against loops that
// say what they should compute.
#include "dtune/nn/kernels/winograd.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "nn/values.h"
#include <doctest/doctest.h>

#include "dtune/nn/kernels/activation.h"
#include "dtune/nn/kernels/batch_norm.h"

namespace dtune {
namespace {

constexpr int64_t kImages = 2;
// The transforms subtract numbers that are some ten times as large.
constexpr double kWinogradTolerance = 2e-5;

struct Convolution {
  WinogradShape shape;
  Values x;        // [images, H, W, C]
  Values weights;  // [O, C, 3, 3]
  Values dy;       // [images, H, W, O]

  explicit Convolution(const WinogradShape& of)
      : shape(of),
        x(random_values(kImages * of.input_size(), 1)),
        weights(random_values(int64_t{9} * of.channels * of.outputs, 2)),
        dy(random_values(kImages * of.output_size(), 3)) {}
};

struct Results {
  Values y;
  Values dx;
  Values dweights;
};

// Calls visit(index in y, in x, in weights) for every product.
template <typename Visit>
void for_each_product(const WinogradShape& s, const Visit& visit) {
  const auto at = [&](int64_t n, int r, int q) {
    return (n * s.height + r) * s.width + q;
  };
  for (int64_t n = 0; n < kImages; ++n) {
    for (int i = 0; i < s.height * s.width * 9; ++i) {
      const int row = i / 9 / s.width;
      const int column = i / 9 % s.width;
      const int r = row + i % 9 / 3 - 1;
      const int q = column + i % 3 - 1;
      if (r < 0 || q < 0 || r >= s.height || q >= s.width) continue;
      for (int o = 0; o < s.outputs; ++o) {
        for (int c = 0; c < s.channels; ++c) {
          visit(static_cast<size_t>(at(n, row, column) * s.outputs + o),
                static_cast<size_t>(at(n, r, q) * s.channels + c),
                static_cast<size_t>((o * s.channels + c) * 9 + i % 9));
        }
      }
    }
  }
}

Results expected_results(const Convolution& conv) {
  Results sums{Values(conv.dy.size()), Values(conv.x.size()),
               Values(conv.weights.size())};
  for_each_product(conv.shape, [&](size_t y, size_t x, size_t w) {
    sums.y[y] += conv.x[x] * conv.weights[w];
    sums.dx[x] += conv.dy[y] * conv.weights[w];
    sums.dweights[w] += conv.dy[y] * conv.x[x];
  });
  return sums;
}

Results run(const WinogradKernels& kernels, const Convolution& conv) {
  const WinogradShape& shape = conv.shape;
  const WinogradShape back = shape.reversed();
  Results results{Values(conv.dy.size()), Values(conv.x.size()),
                  Values(conv.weights.size())};
  Values transformed(static_cast<size_t>(shape.transformed_size()));
  Values scratch(static_cast<size_t>(
      std::max(winograd4_scratch(shape), winograd4_scratch(back))));
  kernels.weights(shape, conv.weights.data(), false, transformed.data());
  CHECK(kernels.forward(shape, kImages, conv.x.data(), transformed.data(),
                        nullptr, scratch.data(), results.y.data()));
  kernels.weights(shape, conv.weights.data(), true, transformed.data());
  kernels.forward(back, kImages, conv.dy.data(), transformed.data(), nullptr,
                  scratch.data(), results.dx.data());
  // An image at a time: the second one adds to what is there.
  for (int64_t i = 0; i < kImages; ++i) {
    kernels.backward_weights(shape, 1, conv.x.data() + i * shape.input_size(),
                             conv.dy.data() + i * shape.output_size(), i == 0,
                             scratch.data(), transformed.data());
  }
  kernels.weights_gradient(shape, transformed.data(), results.dweights.data());
  return results;
}

// The same where weights are transformed where they are used.
Results run_once(const WinogradKernels& kernels, const Convolution& conv) {
  const WinogradShape& shape = conv.shape;
  const WinogradShape back = shape.reversed();
  Results results{Values(conv.dy.size()), Values(conv.x.size()),
                  Values(conv.weights.size())};
  Values scratch(static_cast<size_t>(
      std::max(winograd4_scratch(shape), winograd4_scratch(back))));
  CHECK(kernels.forward_once(shape, kImages, conv.x.data(), conv.weights.data(),
                             /*reversed=*/false, nullptr, scratch.data(),
                             results.y.data()));
  kernels.forward_once(back, kImages, conv.dy.data(), conv.weights.data(),
                       /*reversed=*/true, nullptr, scratch.data(),
                       results.dx.data());
  kernels.gradient_once(shape, kImages, conv.x.data(), conv.dy.data(),
                        scratch.data(), results.dweights.data());
  return results;
}

TEST_CASE("Winograd kernels convolve, forward and backward") {
  for (const WinogradShape& shape :
       std::vector<WinogradShape>{{8, 8, 16, 16},
                                  {10, 7, 16, 48},
                                  {3, 5, 80, 32},
                                  {5, 4, 144, 80},  // several blocks of weights
                                  {16, 12, 32, 112}}) {
    const Convolution conv(shape);
    const Results expected = expected_results(conv);
    for (const WinogradKernels* kernels : runnable_winograd_kernels()) {
      const std::string place = std::string(kernels->name) + " " +
                                std::to_string(shape.height) + "x" +
                                std::to_string(shape.width);
      CAPTURE(place);
      for (const Results& actual :
           {run(*kernels, conv), run_once(*kernels, conv)}) {
        CHECK(worst(actual.y, expected.y) < kWinogradTolerance);
        CHECK(worst(actual.dx, expected.dx) < kWinogradTolerance);
        CHECK(worst(actual.dweights, expected.dweights) < kWinogradTolerance);
      }
    }
  }
}

TEST_CASE("Winograd kernels say where an Inf may have spread") {
  Convolution conv({6, 6, 16, 16});
  conv.x[100] = std::numeric_limits<float>::infinity();
  Values transformed(static_cast<size_t>(conv.shape.transformed_size()));
  Values scratch(static_cast<size_t>(winograd4_scratch(conv.shape)));
  Values y(conv.dy.size());
  for (const WinogradKernels* kernels : runnable_winograd_kernels()) {
    CAPTURE(kernels->name);
    kernels->weights(conv.shape, conv.weights.data(), false,
                     transformed.data());
    CHECK_FALSE(kernels->forward(conv.shape, kImages, conv.x.data(),
                                 transformed.data(), nullptr, scratch.data(),
                                 y.data()));
  }
}

// ---- Batch norm. ----

struct Rows {
  NormRows shape;
  Values x;
  Values y;
  Values dy;
  Values scale;
  Values offset;

  float value(const Values& of, int64_t r, int c) const {
    return of[static_cast<size_t>(r * shape.channels + c)];
  }
};

Rows make_rows(int channels, bool relu) {
  const NormRows shape{150, channels, relu};
  const int64_t count = shape.rows * channels;
  return {shape,
          random_values(count, 1),
          random_values(count, 2),
          random_values(count, 3),
          random_values(channels, 4),
          random_values(channels, 5)};
}

template <typename Check>
void for_all_rows(const Check& check) {
  for (const NormKernels* kernels : runnable_norm_kernels()) {
    for (const int channels : {16, 80, 112}) {
      for (const bool relu : {false, true}) {
        CAPTURE(kernels->name);
        CAPTURE(channels);
        CAPTURE(relu);
        check(*kernels, make_rows(channels, relu));
      }
    }
  }
}

void check_sums(const NormKernels& kernels, const Rows& rows, bool addend) {
  CAPTURE(addend);
  const auto channels = static_cast<size_t>(rows.shape.channels);
  std::vector<double> sums[4];
  std::vector<double> expected[4];
  for (auto& sum : sums) sum.assign(channels, 1);  // they are added to
  for (auto& sum : expected) sum.assign(channels, 1);
  Values masked(rows.dy.size());
  Values expected_masked;
  kernels.statistics(rows.shape, rows.x.data(), rows.offset.data(),
                     sums[0].data(), sums[1].data());
  kernels.gradient_sums(rows.shape,
                        {.dy = rows.dy.data(),
                         .x = rows.x.data(),
                         .y = rows.y.data(),
                         .addend = addend ? rows.x.data() : nullptr,
                         .masked = masked.data()},
                        rows.offset.data(), sums[2].data(), sums[3].data());
  for (int64_t r = 0; r < rows.shape.rows; ++r) {
    for (size_t c = 0; c < channels; ++c) {
      const int at = static_cast<int>(c);
      const float x = rows.value(rows.x, r, at);
      const double away = x - rows.offset[c];
      const bool dead = rows.shape.relu && rows.value(rows.y, r, at) <= 0;
      const float dy = rows.value(rows.dy, r, at) + (addend ? x : 0);
      const float g = dead ? 0 : dy;
      expected[0][c] += away;
      expected[1][c] += away * away;
      expected[2][c] += g;
      expected[3][c] += g * away;
      expected_masked.push_back(g);
    }
  }
  for (int i = 0; i < 4; ++i) CHECK(worst(sums[i], expected[i]) < 1e-5);
  CHECK(masked == expected_masked);
}

TEST_CASE("sums of channels are those of every row") {
  for_all_rows([](const NormKernels& kernels, const Rows& rows) {
    for (const bool addend : {false, true}) check_sums(kernels, rows, addend);
  });
}

TEST_CASE("rows are scaled, shifted, added to and rectified") {
  for_all_rows([](const NormKernels& kernels, const Rows& rows) {
    Values y(rows.x.size());
    Values dx(rows.x.size());
    Values expected_y;
    Values expected_dx;
    kernels.apply(rows.shape, rows.x.data(), rows.scale.data(),
                  rows.offset.data(), rows.dy.data(), y.data());
    kernels.input_gradient(rows.shape, rows.dy.data(), rows.x.data(),
                           rows.y.data(), rows.scale.data(), rows.offset.data(),
                           rows.scale.data(), dx.data());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t c = i % static_cast<size_t>(rows.shape.channels);
      const float sum = rows.x[i] * rows.scale[c] + rows.offset[c] + rows.dy[i];
      const bool dead = rows.shape.relu && rows.y[i] <= 0;
      expected_y.push_back(rows.shape.relu ? std::max(sum, 0.0F) : sum);
      expected_dx.push_back((dead ? 0 : rows.dy[i]) * rows.scale[c] +
                            rows.x[i] * rows.offset[c] + rows.scale[c]);
    }
    CHECK(worst(y, expected_y) < 1e-6);
    CHECK(worst(dx, expected_dx) < 1e-6);
  });
}

TEST_CASE("tanh is exact to a few units in the last place") {
  Values x = random_values(1001, 6);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= static_cast<float>(i % 12);
  x[7] = std::numeric_limits<float>::infinity();
  x[8] = -x[7];
  x[9] = std::numeric_limits<float>::quiet_NaN();
  for (const ActivationKernels* kernels : runnable_activation_kernels()) {
    CAPTURE(kernels->name);
    Values y(x.size());
    kernels->tanh(static_cast<int64_t>(x.size()), x.data(), y.data());
    CHECK(std::isnan(y[9]));
    y[9] = 0;
    double largest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = i == 9 ? 0 : std::tanh(double{x[i]});
      largest = std::max(largest, std::abs(y[i] - expected));
    }
    CHECK(largest < 5e-7);
  }
}

}  // namespace
}  // namespace dtune
