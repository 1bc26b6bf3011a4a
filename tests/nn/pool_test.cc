// Means of windows by the kernels of every instruction set.
#include "dtune/nn/kernels/pool.h"

#include "nn/values.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

constexpr int64_t kImages = 3;
constexpr size_t kGuard = 32;  // floats behind a result, which stay
constexpr float kUntouched = 42;

struct Windows {
  PoolShape shape;

  size_t inputs() const {
    return static_cast<size_t>(kImages * shape.height * shape.row());
  }
  size_t outputs() const {
    return inputs() / static_cast<size_t>(shape.window * shape.window);
  }
  // Of the output that pixel `i` of x is a part of.
  size_t output_of(size_t i) const {
    const auto channels = static_cast<size_t>(shape.channels);
    const auto window = static_cast<size_t>(shape.window);
    const auto width = static_cast<size_t>(shape.width);
    const size_t channel = i % channels;
    const size_t column = i / channels % width;
    const size_t row = i / channels / width;  // of all images
    return (row / window * (width / window) + column / window) * channels +
           channel;
  }
};

// The result, when nothing behind it was written.
Values unguarded(Values values) {
  for (size_t i = values.size() - kGuard; i < values.size(); ++i) {
    CHECK(values[i] == kUntouched);
  }
  values.resize(values.size() - kGuard);
  return values;
}

void check_windows(const PoolKernels& kernels, const Windows& windows) {
  const float share =
      1.0F / static_cast<float>(windows.shape.window * windows.shape.window);
  const Values x = random_values(static_cast<int64_t>(windows.inputs()), 1);
  const Values dy = random_values(static_cast<int64_t>(windows.outputs()), 2);
  Values y(windows.outputs() + kGuard, kUntouched);
  Values dx(windows.inputs() + kGuard, kUntouched);
  kernels.mean(windows.shape, kImages, x.data(), y.data());
  kernels.spread(windows.shape, kImages, dy.data(), dx.data());
  Values expected_y(windows.outputs());
  Values expected_dx;
  for (size_t i = 0; i < x.size(); ++i) {
    expected_y[windows.output_of(i)] += share * x[i];
    expected_dx.push_back(share * dy[windows.output_of(i)]);
  }
  CHECK(worst(unguarded(y), expected_y) < 1e-6);
  CHECK(worst(unguarded(dx), expected_dx) < 1e-6);
}

TEST_CASE("windows that lie side by side are averaged, and spread back") {
  for (const PoolKernels* kernels : runnable_pool_kernels()) {
    CAPTURE(kernels->name);
    for (const int channels : {1, 6, 16, 37}) {
      CAPTURE(channels);
      check_windows(*kernels, {{4, 6, channels, 2}});
      check_windows(*kernels, {{6, 3, channels, 3}});
      check_windows(*kernels, {{2, 2, channels, 1}});
    }
  }
}

}  // namespace
}  // namespace dtune
