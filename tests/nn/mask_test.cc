#include "dtune/nn/mask.h"

#include <cmath>

#include "nn/layers.h"
#include <doctest/doctest.h>

#include "dtune/nn/network.h"

namespace dtune {
namespace {

TEST_CASE("a dropout mask drops the share that it should and scales the rest") {
  const at::Tensor mask =
      dropout_mask(at::empty({64, 500}), {.seed = 1, .drop = 0.3});
  const double dropped = mask.eq(0).to(at::kDouble).mean().item<double>();
  // 32000 draws: a standard deviation of 0.0026.
  CHECK(dropped == doctest::Approx(0.3).epsilon(0.035));
  CHECK(mask.max().item<float>() == doctest::Approx(1 / 0.7));
}

TEST_CASE("samples and elements are dropped independently of each other") {
  const at::Tensor kept =
      dropout_mask(at::empty({400, 400}), {.seed = 2, .drop = 0.5})
          .gt(0)
          .to(at::kDouble)
          .sub(0.5);
  // Correlations of neighbours in both directions: 160000 pairs, deviation
  // 0.0025.
  const auto correlate = [&](int64_t axis) {
    const at::Tensor a = kept.narrow(axis, 0, 399);
    const at::Tensor b = kept.narrow(axis, 1, 399);
    return (a * b).mean().item<double>() * 4;
  };
  CHECK(std::abs(correlate(0)) < 0.0125);
  CHECK(std::abs(correlate(1)) < 0.0125);
  // No sample and no element is dropped much more often than the others.
  CHECK(kept.mean(0).abs().max().item<double>() < 0.125);
  CHECK(kept.mean(1).abs().max().item<double>() < 0.125);
}

TEST_CASE("a mask of a part of a batch is the part of the whole's mask") {
  const at::Tensor x =
      at::empty({6, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor whole = dropout_mask(x, {.seed = 3, .drop = 0.5});
  const at::Tensor part = dropout_mask(
      x.narrow(0, 2, 3), {.seed = 3, .first_sample = 2, .drop = 0.5});
  CHECK(part.equal(whole.narrow(0, 2, 3)));
  CHECK(whole.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_CASE("other devices compute the CPU's mask") {
  const at::Tensor rows = at::empty({9, 77});
  for (const double drop : {0.0, 0.25, 0.6, 1.0}) {
    const MaskKey key{.seed = 4, .first_sample = 100, .drop = drop};
    CHECK(dropout_mask(rows, key).equal(dropout_masks(rows, {&key, 1})));
  }
}

TEST_CASE("masks of networks side by side are each network's own") {
  const std::vector<MaskKey> keys = {{.seed = 4, .drop = 0.5},
                                     {.seed = 5, .drop = 0},
                                     {.seed = 6, .drop = 0.2},
                                     {.seed = 7, .drop = 1}};
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{5, 12, 4, 7}, std::vector<int64_t>{5, 12}}) {
    const at::Tensor x = at::empty(shape);
    const at::Tensor masks = dropout_masks(x, keys);
    CHECK(masks.sizes() == x.sizes());
    for (size_t k = 0; k < keys.size(); ++k) {
      const at::Tensor own = masks.narrow(1, static_cast<int64_t>(3 * k), 3);
      CHECK(own.equal(dropout_mask(own, keys[k])));
    }
  }
}

TEST_CASE("masks change with the seed of the batch and the layer's name") {
  Network network({residual("sum", {dropout("a", 0.5)}, {dropout("b", 0.5)})},
                  {1, 16, 16}, {});
  const at::Tensor x = at::ones({2, 1, 16, 16});
  const at::Tensor y =
      network.forward(x, nullptr, {.training = true, .seed = 1});
  CHECK(y.eq(2).any().item<bool>());  // one of the two dropped it
  CHECK_FALSE(
      y.equal(network.forward(x, nullptr, {.training = true, .seed = 2})));
  CHECK(y.equal(network.forward(x, nullptr, {.training = true, .seed = 1})));
}

TEST_CASE("dropout does nothing in evaluation") {
  Network network({dropout("a", 0.5)}, {1, 4, 4}, {});
  const at::Tensor x = at::randn({2, 1, 4, 4});
  CHECK(network.forward(x, nullptr, {.training = false}).equal(x));
}

}  // namespace
}  // namespace dtune
