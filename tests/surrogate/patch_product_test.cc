#include "dtune/surrogate/kernels/patch_product.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;

namespace {

std::vector<float> normals(Rng& rng, size_t size) {
  std::vector<float> values(size);
  for (float& v : values) v = static_cast<float>(rng.normal());
  return values;
}

// Patches of a volume by chance, and matrices of fitting sizes.
struct Problem {
  Problem(int row_count, int channels, int column_count)
      : rows(row_count), columns(column_count), inner(3 * channels) {
    Rng rng(
        mix_seed({static_cast<uint64_t>(rows), static_cast<uint64_t>(channels),
                  static_cast<uint64_t>(columns)}));
    data = normals(rng, 4000);
    for (int r = 0; r < rows; ++r) {
      where.push_back(static_cast<int32_t>(rng.below(1000)));
    }
    tap = {0, 700, 1900};
    weights = normals(rng, size_t{1} * inner * columns);
  }

  Patches patches() const {
    return {data.data(), where.data(), rows, tap.data(), 3, inner / 3};
  }

  double x(int row, int k) const {
    const int channels = inner / 3;
    return data[where[row] + tap[k / channels] + k % channels];
  }

  int rows;
  int columns;
  int inner;
  std::vector<float> data;
  std::vector<int32_t> where;
  std::vector<int32_t> tap;
  std::vector<float> weights;
};

const std::vector<Problem>& problems() {
  static const std::vector<Problem> all = {
      {168, 28, 64}, {168, 32, 16}, {1, 5, 48},   {9, 7, 96},
      {85, 12, 32},  {170, 1, 112}, {23, 30, 144}};
  return all;
}

// Sums of up to 500 products of normal numbers in single precision.
constexpr double kTolerance = 1e-4;

}  // namespace

TEST_CASE("all kernels multiply patches like the definition") {
  for (const PatchKernels* kernels : runnable_patch_kernels()) {
    CAPTURE(kernels->name);
    for (const Problem& p : problems()) {
      std::vector<float> y(size_t{1} * p.rows * p.columns, 1.0F);
      kernels->multiply(p.patches(), p.weights.data(), p.columns, y.data());
      double worst = 0;
      for (int r = 0; r < p.rows; ++r) {
        for (int c = 0; c < p.columns; ++c) {
          double sum = 1;
          for (int k = 0; k < p.inner; ++k) {
            sum += p.x(r, k) * p.weights[size_t{1} * k * p.columns + c];
          }
          worst =
              std::max(worst, std::abs(sum - y[size_t{1} * r * p.columns + c]));
        }
      }
      CHECK(worst < kTolerance);
    }
  }
}

TEST_CASE("all kernels squash like tanh and the logistic function") {
  std::vector<float> slope(16, 1.0F);
  std::fill_n(slope.begin(), 8, 0.5F);
  for (const PatchKernels* kernels : runnable_patch_kernels()) {
    CAPTURE(kernels->name);
    double worst = 0;
    for (float x = -30; x < 30; x += 0.01F) {
      std::vector<float> y(32, x);
      kernels->squash(2, 16, slope.data(), y.data());
      worst = std::max(worst, std::abs(y[0] - 1 / (1 + std::exp(-double{x}))));
      worst = std::max(worst, std::abs(y[31] - std::tanh(double{x})));
    }
    CHECK(worst < 3e-7);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    std::vector<float> y(16, kInfinity);
    y[1] = -kInfinity;
    y[2] = std::numeric_limits<float>::quiet_NaN();
    kernels->squash(1, 16, slope.data(), y.data());
    CHECK(y[0] == doctest::Approx(1));
    CHECK(y[1] == doctest::Approx(0));
    CHECK(std::isnan(y[2]));
  }
}

TEST_CASE("the portable kernels run on every machine") {
  CHECK(runnable_patch_kernels().back()->name == std::string_view("portable"));
  CHECK(&patch_kernels() == runnable_patch_kernels().front());
}
