// The kernels of every instruction set that this CPU has, against loops that
// say what they should compute.
#include "dtune/nn/kernels/product_conv.h"

#include <limits>
#include <string>
#include <vector>

#include "nn/values.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

constexpr int64_t kProductImages = 3;

// x [images, H, W, C], weights [O, C, k, k], dy [images, out pixels, O].
struct ProductConvolution {
  ProductShape shape;
  Values bias;
  Values x;
  Values weights;
  Values dy;

  explicit ProductConvolution(const ProductShape& of)
      : shape(of),
        bias(random_values(of.outputs, 4)),
        x(random_values(kProductImages * of.input_size(), 1)),
        weights(random_values(of.weights_size(), 2)),
        dy(random_values(kProductImages * of.output_size(), 3)) {}
};

struct ProductResults {
  explicit ProductResults(const ProductConvolution& conv)
      : y(conv.dy.size()), dx(conv.x.size()), dweights(conv.weights.size()) {}

  Values y;
  Values dx;
  Values dweights;
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
  Values transformed(static_cast<size_t>(shape.transformed_size()));
  Values dtransformed(static_cast<size_t>(shape.dtransformed_size()), 9.0F);
  Values scratch(static_cast<size_t>(product_scratch(shape)));
  kernels.weights(shape, conv.weights.data(), false, transformed.data());
  CHECK(kernels.forward(shape, kProductImages, conv.x.data(),
                        transformed.data(), conv.bias.data(), scratch.data(),
                        results.y.data()));
  kernels.weights(shape, conv.weights.data(), true, transformed.data());
  kernels.backward(shape, 1, conv.x.data(), conv.dy.data(), shape.outputs,
                   transformed.data(), /*fresh=*/true, scratch.data(),
                   dtransformed.data(), results.dx.data());
  // The other images add to the first one's sums.
  kernels.backward(shape, kProductImages - 1,
                   conv.x.data() + shape.input_size(),
                   conv.dy.data() + shape.output_size(), shape.outputs,
                   transformed.data(), /*fresh=*/false, scratch.data(),
                   dtransformed.data(), results.dx.data() + shape.input_size());
  kernels.weights_gradient(shape, dtransformed.data(), results.dweights.data());
  return results;
}

// Both are sums of up to 1,500 products: errors of the last place grow.
constexpr double kProductTolerance = 1e-5;

void check_products(const ProductShape& shape) {
  const ProductConvolution conv(shape);
  const ProductResults expected = expected_products(conv);
  for (const ProductKernels* kernels : runnable_product_kernels()) {
    const std::string place = std::string(kernels->name) + " " +
                              std::to_string(shape.kernel) + "x" +
                              std::to_string(shape.kernel) + ", " +
                              std::to_string(shape.channels) + " channels";
    CAPTURE(place);
    const ProductResults actual = run_products(*kernels, conv);
    CHECK(worst(actual.y, expected.y) < kProductTolerance);
    CHECK(worst(actual.dx, expected.dx) < kProductTolerance);
    CHECK(worst(actual.dweights, expected.dweights) < kProductTolerance);
  }
}

TEST_CASE("product kernels convolve, forward and backward") {
  for (const ProductShape& shape : std::vector<ProductShape>{
           {1, 1, 48, 80, 1, 1, 0},    // a pixel
           {24, 22, 32, 48, 1, 1, 0},  // several blocks
           {9, 11, 16, 32, 1, 2, 0},   // strided, odd sides
           {8, 6, 32, 16, 3, 2, 1},    // taps of all at once
           {7, 9, 80, 112, 3, 2, 1},   // taps one by one
           {6, 7, 16, 48, 5, 1, 2},
           {2, 2, 16, 16, 3, 1, 1},       // too small for Winograd
           {20, 20, 16, 16, 2, 3, 0}}) {  // pixels that no output reads
    check_products(shape);
  }
}

TEST_CASE("product kernels convolve by Strassen's algorithm") {
  for (ProductShape shape : std::vector<ProductShape>{
           {1, 1, 32, 160, 1, 1, 0},    // a pixel: no lower half
           {13, 9, 96, 64, 1, 1, 0},    // an odd number of them
           {24, 22, 32, 96, 1, 1, 0},   // several blocks
           {9, 11, 64, 32, 1, 2, 0},    // strided, odd sides
           {8, 6, 32, 32, 3, 2, 1},     // taps of all at once
           {7, 9, 96, 160, 3, 2, 1},    // taps one by one
           {6, 7, 16, 32, 4, 1, 2}}) {  // half of the taps' channels
    REQUIRE(shape.has_quarters());
    shape.strassen = true;
    check_products(shape);
  }
  CHECK_FALSE(ProductShape{1, 1, 48, 64}.has_quarters());
  CHECK_FALSE(ProductShape{1, 1, 64, 48}.has_quarters());
}

TEST_CASE("Strassen's algorithm says where an Inf may have spread") {
  ProductShape shape{4, 4, 32, 32, 1, 1, 0};
  shape.strassen = true;
  ProductConvolution conv(shape);
  conv.x[100] = std::numeric_limits<float>::infinity();
  Values transformed(static_cast<size_t>(shape.transformed_size()));
  Values scratch(static_cast<size_t>(product_scratch(shape)));
  Values y(conv.dy.size());
  for (const ProductKernels* kernels : runnable_product_kernels()) {
    CAPTURE(kernels->name);
    kernels->weights(shape, conv.weights.data(), false, transformed.data());
    CHECK_FALSE(kernels->forward(shape, kProductImages, conv.x.data(),
                                 transformed.data(), nullptr, scratch.data(),
                                 y.data()));
  }
}

}  // namespace
}  // namespace dtune
