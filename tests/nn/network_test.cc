// Forward and backward of whole networks against autograd.
#include <algorithm>
#include <cmath>

#include "nn/layers.h"
#include "nn/oracle.h"
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

namespace dtune {
namespace {

// Sums of some hundred float products in another order differ by this much.
constexpr double kNetworkTolerance = 2e-5;

at::Tensor random_batch(std::vector<int64_t> shape) {
  at::manual_seed(7);
  return at::randn(shape);
}

// Moves the parameters off their defaults so that no term hides behind a zero.
void disturb(Network& network) {
  at::manual_seed(11);
  network.weights().add_(at::randn_like(network.weights()), 0.05);
  network.buffers().add_(at::rand_like(network.buffers()), 0.3);
}

void check_against_oracle(const std::vector<LayerSpec>& layers,
                          const Shape& shape,
                          double tolerance = kNetworkTolerance) {
  Network network(layers, shape, {});
  disturb(network);
  const at::Tensor x =
      shape.flat ? random_batch({5, shape.channels})
                 : random_batch({5, shape.channels, shape.height, shape.width});
  for (const bool training : {true, false}) {
    CAPTURE(training);
    CAPTURE(layers.front().name);
    Tape tape;
    const at::Tensor y = network.forward(x, nullptr, {.training = false});
    const at::Tensor dy = at::randn_like(y);
    const OracleResult expected = run_oracle(layers, network, x, dy, training);
    network.gradients().zero_();
    const at::Tensor actual = network.forward(x, &tape, {.training = training});
    const at::Tensor dx = network.backward(dy, tape, true);
    CHECK(relative_error(actual, expected.y) < tolerance);
    CHECK(relative_error(dx, expected.dx) < tolerance);
    CHECK(relative_error(network.gradients(), expected.gradients) < tolerance);
  }
}

std::vector<LayerSpec> small_cnn(double p) {
  return {conv("conv1", 8),
          layer(LayerKind::relu, "relu1"),
          pool(LayerKind::max_pool, "pool1"),
          conv("conv2", 16),
          layer(LayerKind::relu, "relu2"),
          pool(LayerKind::max_pool, "pool2"),
          linear("linear1", 12),
          layer(LayerKind::relu, "relu3"),
          dropout("dropout1", p),
          linear("linear2", 10)};
}

TEST_CASE("a convolutional network computes what autograd computes") {
  check_against_oracle(small_cnn(0), {1, 12, 12});
}

TEST_CASE("fused blocks compute what autograd computes") {
  // Max pools and ReLUs choose: rounding may flip a tie, but not with these.
  check_against_oracle(zoo("cnn-small", {1, 28, 28}), {1, 28, 28}, 1e-4);
  check_against_oracle(zoo("cnn-small", {3, 16, 12}), {3, 16, 12}, 1e-4);
  LayerSpec bare = conv("bare", 48);
  bare.bias = false;
  check_against_oracle({bare, pool(LayerKind::max_pool, "pool"),
                        layer(LayerKind::relu, "relu"), linear("fc", 3)},
                       {32, 6, 10}, 1e-4);
}

// The network in float32 and, with the same weights, in bfloat16.
void check_bfloat16(const std::vector<LayerSpec>& layers, const Shape& shape) {
  Network exact(layers, shape, {.init_seed = 3, .fuse = false});
  Network rounded(layers, shape, {.init_seed = 3, .compute = at::kBFloat16});
  disturb(exact);
  disturb(rounded);
  const at::Tensor x =
      random_batch({8, shape.channels, shape.height, shape.width});
  const PassContext context{.training = true, .seed = 5};
  Tape tapes[2];
  const at::Tensor expected = exact.forward(x, &tapes[0], context);
  const at::Tensor actual = rounded.forward(x, &tapes[1], context);
  CHECK(actual.element_size() == 4);
  const double error = relative_error(actual, expected);
  CHECK(error > 1e-5);  // it is another arithmetic: 8 bits of mantissa
  CHECK(error < 0.05);
  const at::Tensor dy = at::randn_like(expected);
  const at::Tensor expected_dx = exact.backward(dy, tapes[0], true);
  const at::Tensor dx = rounded.backward(dy, tapes[1], true);
  CHECK(dx.element_size() == 4);
  CHECK(rounded.gradients().element_size() == 4);
  CHECK(relative_error(dx, expected_dx) < 0.15);
  CHECK(relative_error(rounded.gradients(), exact.gradients()) < 0.15);
  CHECK(relative_error(rounded.buffers(), exact.buffers()) < 0.02);
}

TEST_CASE("in bfloat16 a network computes the same to fewer digits") {
  check_bfloat16(small_cnn(0.3), {1, 12, 12});
  check_bfloat16(
      {conv("conv1", 8), layer(LayerKind::batch_norm, "norm1"),
       layer(LayerKind::gelu, "gelu1"), pool(LayerKind::avg_pool, "pool1"),
       conv("conv2", 8), layer(LayerKind::tanh, "tanh1"),
       layer(LayerKind::global_avg_pool, "mean"), linear("fc", 5)},
      {3, 8, 8});
  LayerSpec groups = layer(LayerKind::group_norm, "norm");
  groups.groups = 2;
  LayerSpec block = layer(LayerKind::residual, "block");
  block.body = {conv("inner", 8), groups, layer(LayerKind::relu, "relu")};
  check_bfloat16({conv("conv", 8), block,
                  layer(LayerKind::global_avg_pool, "mean"), linear("fc", 5)},
                 {3, 8, 8});
}

TEST_CASE("fusing changes neither names nor the order of layers") {
  const Shape image{1, 28, 28};
  const std::vector<LayerSpec> layers = zoo("cnn-small", image, 0.4);
  Network fused(layers, image, {.init_seed = 4});
  Network plain(layers, image, {.init_seed = 4, .fuse = false});
  CHECK(fused.weights().equal(plain.weights()));
  REQUIRE(fused.parameter_slices().size() == plain.parameter_slices().size());
  for (size_t i = 0; i < plain.parameter_slices().size(); ++i) {
    CHECK(fused.parameter_slices()[i].name == plain.parameter_slices()[i].name);
    CHECK(fused.parameter_slices()[i].layer ==
          plain.parameter_slices()[i].layer);
  }
  const at::Tensor x = random_batch({9, 1, 28, 28});
  const PassContext context{.training = true, .seed = 3};
  Tape tape;
  const at::Tensor y = fused.forward(x, &tape, context);
  CHECK(relative_error(y, plain.forward(x, nullptr, context)) < 1e-5);
  std::vector<int> order;
  fused.backward(at::ones_like(y), tape, false,
                 [&](int index) { order.push_back(index); });
  CHECK(order == std::vector<int>{10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
}

TEST_CASE("a fused network in several threads adds up the same gradients") {
  const Shape image{1, 28, 28};
  const std::vector<LayerSpec> layers = zoo("cnn-small", image);
  const at::Tensor x = random_batch({11, 1, 28, 28});
  const at::Tensor dy = random_batch({11, 10});
  std::vector<at::Tensor> gradients;
  const int before = at::get_num_threads();
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    Network network(layers, image, {});
    Tape tape;
    network.forward(x, &tape, {.training = true});
    network.backward(dy, tape);
    gradients.push_back(network.gradients().clone());
  }
  at::set_num_threads(before);
  CHECK(relative_error(gradients[1], gradients[0]) < kNetworkTolerance);
}

TEST_CASE("a tape's buffers never change what a caller still holds") {
  const Shape image{1, 28, 28};
  Network network({conv("c", 16), layer(LayerKind::relu, "r"),
                   pool(LayerKind::max_pool, "p")},
                  image, {});
  Tape tape;
  const at::Tensor first =
      network.forward(random_batch({2, 1, 28, 28}), &tape, {.training = true});
  const at::Tensor copy = first.clone();
  network.forward(at::ones({2, 1, 28, 28}), &tape, {.training = true});
  CHECK(first.equal(copy));
}

TEST_CASE("every kind of layer computes what autograd computes") {
  LayerSpec grouped = conv("grouped", 8, 3, 2);
  grouped.groups = 4;
  grouped.bias = false;
  LayerSpec padded = pool(LayerKind::avg_pool, "avg", 3, 2);
  padded.padding = 1;
  const Shape image{4, 9, 11};
  check_against_oracle({conv("strided", 6, 5, 2)}, image);
  check_against_oracle({grouped}, image);
  check_against_oracle({conv("one_pixel", 8, 1, 2)}, image);
  check_against_oracle({layer(LayerKind::batch_norm, "bn")}, image, 1e-4);
  check_against_oracle({group_norm("gn", 2)}, image, 1e-4);
  check_against_oracle({layer(LayerKind::gelu, "gelu")}, image);
  check_against_oracle({layer(LayerKind::tanh, "tanh")}, image);
  check_against_oracle({pool(LayerKind::max_pool, "max", 3, 2)}, image);
  check_against_oracle({padded}, image);
  check_against_oracle({pool(LayerKind::avg_pool, "apart", 2, 2)}, {6, 8, 10});
  check_against_oracle({pool(LayerKind::avg_pool, "odd", 2, 2)}, image);
  check_against_oracle({layer(LayerKind::global_avg_pool, "gap")}, image);
  check_against_oracle({layer(LayerKind::flatten, "flat"), linear("fc", 3)},
                       image);
}

TEST_CASE("normalisations take flat inputs too") {
  const Shape flat{12, 1, 1, true};
  check_against_oracle({layer(LayerKind::batch_norm, "bn")}, flat, 1e-4);
  check_against_oracle({group_norm("gn", 3)}, flat, 1e-4);
}

TEST_CASE("a residual adds its body and its shortcut, each with its gradient") {
  const Shape image{4, 6, 6};
  check_against_oracle(
      {residual("same", {layer(LayerKind::relu, "r"), conv("c", 4)})}, image);
  check_against_oracle(
      {conv("first", 4),
       residual("other",
                {conv("a", 8, 3, 2), layer(LayerKind::batch_norm, "bn")},
                {conv("b", 8, 1, 2)}),
       layer(LayerKind::relu, "last")},
      image, 1e-4);
}

// Largest relative error of y, dx and the gradients on a batch of this seed.
double error_on_batch(Network& network, const std::vector<LayerSpec>& layers,
                      const Shape& image, bool training, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor x =
      at::randn({5, image.channels, image.height, image.width});
  const at::Tensor dy = at::randn({5, 10});
  const OracleResult expected = run_oracle(layers, network, x, dy, training);
  Tape tape;
  network.gradients().zero_();
  const at::Tensor y = network.forward(x, &tape, {.training = training});
  const at::Tensor dx = network.backward(dy, tape, true);
  return std::max({relative_error(y, expected.y),
                   relative_error(dx, expected.dx),
                   relative_error(network.gradients(), expected.gradients)});
}

// A ReLU whose input is within rounding of zero may be on in one of the two and
// off in the other, which shows in the gradients (2e-2). Such a batch says
// nothing; most have none.
TEST_CASE("resnet18 builds from the zoo and its gradients match autograd's") {
  const Shape image{3, 16, 16};
  ModelSpec model;
  model.arch = "resnet18";
  model.width = 16;
  const std::vector<LayerSpec> layers = expand_model(model, image, 10);
  Network network(layers, image, {});
  disturb(network);
  for (const bool training : {true, false}) {
    CAPTURE(training);
    double least = 1;
    for (uint64_t seed = 7; seed < 13 && least > 1e-4; ++seed) {
      least = std::min(least,
                       error_on_batch(network, layers, image, training, seed));
    }
    CHECK(least < 1e-4);
  }
}

TEST_CASE("finite differences confirm the gradient of the loss") {
  // Smooth layers only: a difference across the kink of a ReLU is no slope.
  const std::vector<LayerSpec> layers = {
      conv("c", 3), layer(LayerKind::tanh, "t"), linear("fc", 4)};
  Network network(layers, {2, 5, 5}, {});
  const at::Tensor x = random_batch({3, 2, 5, 5});
  const at::Tensor dy = random_batch({3, 4});
  Tape tape;
  network.forward(x, &tape, {.training = true});
  network.backward(dy, tape);
  const auto loss = [&] {
    return (network.forward(x, nullptr, {}) * dy).sum().item<double>();
  };
  constexpr double kStep = 1e-2;  // float32: smaller drowns in rounding
  const int64_t count = network.weights().numel();
  for (int64_t i = 0; i < count; i += 17) {
    at::Tensor weight = network.weights()[i];
    const double before = weight.item<double>();
    weight.fill_(before + kStep);
    const double above = loss();
    weight.fill_(before - kStep);
    const double below = loss();
    weight.fill_(before);
    const double slope = (above - below) / (2 * kStep);
    CHECK(network.gradients()[i].item<double>() ==
          doctest::Approx(slope).epsilon(0.01).scale(1));
  }
}

TEST_CASE("gradients of micro-batches add up to the whole batch's") {
  const std::vector<LayerSpec> layers = small_cnn(0.4);
  const Shape image{1, 12, 12};
  Network whole(layers, image, {});
  Network parts(layers, image, {});
  const at::Tensor x = random_batch({7, 1, 12, 12});
  const at::Tensor dy = random_batch({7, 10});
  Tape tape;
  const at::Tensor y = whole.forward(x, &tape, {.training = true, .seed = 5});
  whole.backward(dy, tape);
  // Both parts are in flight before the first comes back.
  Tape first;
  Tape second;
  const at::Tensor y1 =
      parts.forward(x.narrow(0, 0, 3), &first, {.training = true, .seed = 5});
  const at::Tensor y2 =
      parts.forward(x.narrow(0, 3, 4), &second,
                    {.training = true, .seed = 5, .first_sample = 3});
  parts.backward(dy.narrow(0, 0, 3), first);
  parts.backward(dy.narrow(0, 3, 4), second);
  CHECK(relative_error(at::cat({y1, y2}), y) < kNetworkTolerance);
  CHECK(relative_error(parts.gradients(), whole.gradients()) <
        kNetworkTolerance);
}

TEST_CASE("gradients are announced layer by layer, last layer first") {
  Network network(small_cnn(0), {1, 12, 12}, {});
  const at::Tensor x = random_batch({2, 1, 12, 12});
  Tape tape;
  network.forward(x, &tape, {.training = true});
  std::vector<int> order;
  std::vector<at::Tensor> seen;
  network.backward(random_batch({2, 10}), tape, false, [&](int index) {
    order.push_back(index);
    seen.push_back(network.gradients().clone());
  });
  CHECK(order == std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  for (const ParameterSlice& slice : network.parameter_slices()) {
    int64_t count = 1;
    for (const int64_t size : slice.shape) count *= size;
    const auto when = static_cast<size_t>(9 - slice.layer);
    CHECK(seen[when]
              .narrow(0, slice.offset, count)
              .equal(network.gradients().narrow(0, slice.offset, count)));
  }
}

TEST_CASE("two runs of a network agree to the last bit") {
  const Shape image{1, 28, 28};
  const std::vector<LayerSpec> layers = zoo("cnn-small", image, 0.3);
  const at::Tensor x = random_batch({16, 1, 28, 28});
  const at::Tensor dy = random_batch({16, 10});
  std::vector<at::Tensor> gradients;
  for (int run = 0; run < 2; ++run) {
    Network network(layers, image, {.init_seed = 3});
    Tape tape;
    for (int step = 0; step < 2; ++step) {
      network.forward(x, &tape, {.training = true, .seed = 9});
      network.backward(dy, tape);
    }
    gradients.push_back(network.gradients().clone());
  }
  CHECK(gradients[0].equal(gradients[1]));
}

TEST_CASE("batch norm keeps running statistics of training batches alone") {
  Network network({layer(LayerKind::batch_norm, "bn")}, {2, 4, 4}, {});
  const at::Tensor x = random_batch({8, 2, 4, 4}) * 3 + 1;
  network.forward(x, nullptr, {.training = false});
  CHECK(network.buffers().equal(at::tensor({0.F, 0.F, 1.F, 1.F})));
  network.forward(x, nullptr, {.training = true});
  const at::Tensor mean = x.mean({0, 2, 3}) * 0.1;
  const at::Tensor variance = x.var(at::IntArrayRef{0, 2, 3}) * 0.1 + 0.9;
  CHECK(relative_error(network.buffers(), at::cat({mean, variance})) < 1e-5);
}

TEST_CASE("weights start as He et al. say, by seed and name alone") {
  const std::vector<LayerSpec> layers = {conv("a", 64), linear("b", 100)};
  Network one(layers, {16, 8, 8}, {.init_seed = 1});
  Network same(layers, {16, 8, 8}, {.init_seed = 1});
  Network other(layers, {16, 8, 8}, {.init_seed = 2});
  CHECK(one.weights().equal(same.weights()));
  CHECK_FALSE(one.weights().equal(other.weights()));
  const at::Tensor weight = one.weights().narrow(0, 0, 64 * 16 * 9);
  CHECK(weight.std().item<double>() ==
        doctest::Approx(std::sqrt(2.0 / (16 * 9))).epsilon(0.03));
  CHECK(one.weights().narrow(0, 64 * 16 * 9, 64).abs().max().item<float>() ==
        0);
}

TEST_CASE("slices name every weight and say which decay") {
  Network network(
      {conv("conv1", 4), layer(LayerKind::batch_norm, "bn1"), linear("fc", 2)},
      {1, 4, 4}, {});
  std::vector<std::string> text;
  for (const ParameterSlice& slice : network.parameter_slices()) {
    text.push_back(slice.name + (slice.decays ? " decays " : " ") +
                   std::to_string(slice.offset) + " " +
                   std::to_string(slice.layer));
  }
  CHECK(text ==
        std::vector<std::string>{"conv1.weight decays 0 0", "conv1.bias 36 0",
                                 "bn1.weight 40 1", "bn1.bias 44 1",
                                 "fc.weight decays 48 2", "fc.bias 176 2"});
  CHECK(network.weights().numel() == 178);
  CHECK(network.flops_per_sample() == 2 * (16 * 36 + 64 * 2));
}

TEST_CASE("two layers of one name are refused") {
  CHECK_THROWS_WITH_AS(
      Network({conv("c", 2), conv("c", 2)}, {1, 4, 4}, {}),
      "model: two layers would both own 'c.weight' (give every layer a name of "
      "its own)",
      Error);
}

}  // namespace
}  // namespace dtune
