// The kernels of every instruction set that this CPU has, against loops that
// say what they should compute.
#include "dtune/nn/kernels/product_conv.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kProductImages = 3;

Floats product_values(int64_t count, uint64_t seed) {
  Rng rng(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.uniform(-1, 1));
  return values;
}

// Largest difference over the largest magnitude of `expected`.
double worst_of(const Floats& actual, const Floats& expected) {
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(double{expected[i]}));
    difference =
        std::max(difference, std::abs(double{actual[i]} - double{expected[i]}));
  }
  return difference / largest;
}

// x [images, H, W, C], weights [O, C, k, k], dy [images, out pixels, O].
struct ProductConvolution {
  ProductShape shape;
  Floats bias;
  Floats x;
  Floats weights;
  Floats dy;

  explicit ProductConvolution(const ProductShape& of)
      : shape(of),
        bias(product_values(of.outputs, 4)),
        x(product_values(kProductImages * of.input_size(), 1)),
        weights(product_values(of.weights_size(), 2)),
        dy(product_values(kProductImages * of.output_size(), 3)) {}
};

struct ProductResults {
  explicit ProductResults(const ProductConvolution& conv)
      : y(conv.dy.size()), dx(conv.x.size()), dweights(conv.weights.size()) {}

  Floats y;
  Floats dx;
  Floats dweights;
};

// Of every output pixel and tap inside the image: visit(first of the output's
// floats, of the pixel's, tap).
template <typename Visit>
void for_each_tap(const ProductShape& s, const Visit& visit) {
  for (int64_t pixel = 0; pixel < kProductImages * s.pixels(); ++pixel) {
    const auto place = static_cast<int>(pixel % s.pixels());
    for (int tap = 0; tap < s.taps(); ++tap) {
      const int row =
          place / s.out_width() * s.stride - s.padding + tap / s.kernel;
      const int column =
          place % s.out_width() * s.stride - s.padding + tap % s.kernel;
      if (row < 0 || column < 0 || row >= s.height || column >= s.width) {
        continue;
      }
      const int64_t from = (pixel / s.pixels() * s.height + row) * s.width;
      visit(pixel * s.outputs, (from + column) * s.channels, tap);
    }
  }
}

ProductResults expected_products(const ProductConvolution& conv) {
  const ProductShape& s = conv.shape;
  ProductResults sums(conv);
  for (size_t i = 0; i < sums.y.size(); ++i) {
    sums.y[i] = conv.bias[i % conv.bias.size()];
  }
  for_each_tap(s, [&](int64_t y, int64_t x, int tap) {
    for (int64_t o = 0; o < s.outputs; ++o) {
      for (int64_t c = 0; c < s.channels; ++c) {
        const auto w =
            static_cast<size_t>((o * s.channels + c) * s.taps() + tap);
        const auto to = static_cast<size_t>(y + o);
        const auto from = static_cast<size_t>(x + c);
        sums.y[to] += conv.x[from] * conv.weights[w];
        sums.dx[from] += conv.dy[to] * conv.weights[w];
        sums.dweights[w] += conv.dy[to] * conv.x[from];
      }
    }
  });
  return sums;
}

ProductResults run_products(const ProductKernels& kernels,
                            const ProductConvolution& conv) {
  const ProductShape& shape = conv.shape;
  ProductResults results(conv);
  Floats transformed(conv.weights.size());
  Floats dtransformed(conv.weights.size());
  Floats scratch(static_cast<size_t>(product_scratch(shape)));
  kernels.weights(shape, conv.weights.data(), false, transformed.data());
  kernels.forward(shape, kProductImages, conv.x.data(), transformed.data(),
                  conv.bias.data(), scratch.data(), results.y.data());
  kernels.weights(shape, conv.weights.data(), true, transformed.data());
  kernels.backward(shape, 1, conv.x.data(), conv.dy.data(), shape.outputs,
                   transformed.data(), scratch.data(), dtransformed.data(),
                   results.dx.data());
  // The other images add to the first one's sums.
  kernels.backward(shape, kProductImages - 1,
                   conv.x.data() + shape.input_size(),
                   conv.dy.data() + shape.output_size(), shape.outputs,
                   transformed.data(), scratch.data(), dtransformed.data(),
                   results.dx.data() + shape.input_size());
  kernels.weights_gradient(shape, dtransformed.data(), results.dweights.data());
  return results;
}

TEST_CASE("product kernels convolve, forward and backward") {
  for (const ProductShape& shape : std::vector<ProductShape>{
           {1, 1, 48, 80, 1, 1, 0},   // a pixel
           {9, 11, 16, 32, 1, 2, 0},  // strided, odd sides
           {8, 6, 32, 16, 3, 2, 1},   // taps of all at once
           {7, 9, 80, 112, 3, 2, 1},  // taps one by one
           {6, 7, 16, 48, 5, 1, 2},
           {2, 2, 16, 16, 3, 1, 1},       // too small for Winograd
           {20, 20, 16, 16, 2, 3, 0}}) {  // pixels that no output reads
    const ProductConvolution conv(shape);
    const ProductResults expected = expected_products(conv);
    for (const ProductKernels* kernels : runnable_product_kernels()) {
      const std::string place = std::string(kernels->name) + " " +
                                std::to_string(shape.kernel) + "x" +
                                std::to_string(shape.kernel) + ", " +
                                std::to_string(shape.channels) + " channels";
      CAPTURE(place);
      const ProductResults actual = run_products(*kernels, conv);
      CHECK(worst_of(actual.y, expected.y) < 1e-5);
      CHECK(worst_of(actual.dx, expected.dx) < 1e-5);
      CHECK(worst_of(actual.dweights, expected.dweights) < 1e-5);
    }
  }
}

}  // namespace
}  // namespace dtune
