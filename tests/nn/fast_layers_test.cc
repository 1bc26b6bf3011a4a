// The CPU's fast layers (fuse.h) against autograd and the layers that they
// stand for.
#include <cmath>
#include <limits>

#include "nn/layers.h"
#include "nn/oracle.h"
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include "dtune/nn/fuse.h"

namespace dtune {
namespace {

constexpr double kFastTolerance = 1e-4;

at::Tensor batch_of(int64_t samples, const Shape& shape) {
  at::manual_seed(7);
  return at::randn({samples, shape.channels, shape.height, shape.width});
}

void move_off_defaults(Network& network) {
  at::manual_seed(11);
  network.weights().add_(at::randn_like(network.weights()), 0.05);
  network.buffers().add_(at::rand_like(network.buffers()), 0.3);
}

std::vector<int> counts_of_runs(const std::vector<LayerSpec>& layers,
                                const Shape& shape) {
  std::vector<int> units = network_units(layers, shape, {});
  units.push_back(static_cast<int>(layers.size()));
  for (size_t i = 0; i + 1 < units.size(); ++i)
    units[i] = units[i + 1] - units[i];
  units.pop_back();
  return units;
}

void check_fast(const std::vector<LayerSpec>& layers, const Shape& shape) {
  Network network(layers, shape, {});
  move_off_defaults(network);
  const at::Tensor x = batch_of(5, shape);
  for (const bool training : {true, false}) {
    CAPTURE(training);
    CAPTURE(layers.front().name);
    Tape tape;
    const at::Tensor dy =
        at::randn_like(network.forward(x, nullptr, {.training = false}));
    const OracleResult expected = run_oracle(layers, network, x, dy, training);
    network.gradients().zero_();
    const at::Tensor y = network.forward(x, &tape, {.training = training});
    const at::Tensor dx = network.backward(dy, tape, true);
    CHECK(relative_error(y, expected.y) < kFastTolerance);
    CHECK(relative_error(dx, expected.dx) < kFastTolerance);
    CHECK(relative_error(network.gradients(), expected.gradients) <
          kFastTolerance);
  }
}

TEST_CASE("a Winograd convolution computes what autograd computes") {
  const Shape image{16, 9, 11};
  LayerSpec bare = conv("bare", 48);
  bare.bias = false;
  check_fast({conv("with bias", 32), layer(LayerKind::tanh, "t")}, image);
  check_fast({bare, conv("second", 16), layer(LayerKind::tanh, "t")}, image);
}

TEST_CASE("batch norm with its ReLU computes what autograd computes") {
  const Shape image{48, 5, 7};
  check_fast({norm("alone")}, image);
  check_fast({norm("before"), relu("r")}, image);
  CHECK(counts_of_runs({norm("before"), relu("r"), norm("alone")}, image) ==
        std::vector<int>{2, 1});
}

TEST_CASE("a residual with its ReLU computes what autograd computes") {
  const Shape image{16, 6, 6};
  const std::vector<LayerSpec> same = {
      residual("same", {conv("c", 16), norm("n")}), relu("r")};
  check_fast(same, image);
  CHECK(counts_of_runs(same, image) == std::vector<int>{2});
  check_fast({conv("before", 16),
              residual("other",
                       {conv("a", 32, 3, 2), norm("na"), relu("ra"),
                        conv("b", 32), norm("nb")},
                       {conv("s", 32, 1, 2), norm("ns")}),
              relu("r")},
             image);
  // What follows the sum is not a part of the branch's last layer.
  check_fast(
      {residual("plain", {norm("n"), relu("a"), conv("c", 16)}), relu("r")},
      image);
  check_fast({residual("odd", {conv("c", 16), norm("n")}),
              layer(LayerKind::tanh, "t")},
             image);
}

LayerSpec bare(const std::string& name, int channels, int kernel = 3,
               int stride = 1) {
  LayerSpec spec = conv(name, channels, kernel, stride);
  spec.bias = false;
  return spec;
}

TEST_CASE("1x1 and strided convolutions compute what autograd computes") {
  const Shape image{32, 9, 7};
  const LayerSpec end = layer(LayerKind::tanh, "t");
  check_fast({conv("pixels", 48, 1), end}, image);
  check_fast({bare("strided pixels", 16, 1, 2), end}, image);
  check_fast({conv("strided", 48, 3, 2), end}, image);
  check_fast({bare("large", 16, 5), conv("again", 16, 5, 3), end}, image);
  CHECK(counts_of_runs({conv("a", 16, 1), conv("b", 16, 3, 2)}, image) ==
        std::vector<int>{1, 1});
}

// 1,280 rows of 128 channels and more.
TEST_CASE(
    "convolutions by Strassen's algorithm compute what autograd computes") {
  const Shape image{128, 16, 16};
  const LayerSpec end = layer(LayerKind::tanh, "t");
  check_fast({conv("pixels", 160, 1), end}, image);
  check_fast({bare("strided", 128, 3, 2), end}, {128, 33, 32});
  check_fast({residual("chain", {bare("a", 128, 1), norm("na"), relu("ra"),
                                 bare("b", 128, 1), norm("nb")}),
              relu("r")},
             image);
}

// ResNet's branches: in them convolutions and batch norms are one layer.
TEST_CASE("a chain of convolutions and norms computes what autograd computes") {
  const Shape image{32, 8, 6};
  const std::vector<LayerSpec> bottleneck = {
      bare("a", 16, 1), norm("na"), relu("ra"),       bare("b", 16),
      norm("nb"),       relu("rb"), bare("c", 32, 1), norm("nc")};
  // The sum is of what came in, with a ReLU and without.
  check_fast({residual("same", bottleneck), relu("r")}, image);
  check_fast({residual("linear", bottleneck), layer(LayerKind::tanh, "t")},
             image);
  check_fast({residual("first", bottleneck), relu("r"),
              residual("smaller",
                       {bare("sa", 16, 1), norm("sna"), relu("sra"),
                        bare("sb", 16, 3, 2), norm("snb"), bare("sc", 64, 1),
                        norm("snc")},
                       {bare("ss", 64, 1, 2), norm("sns")}),
              relu("r2")},
             image);
  // A chain that is a part of the branch.
  check_fast(
      {residual("part", {norm("n"), relu("ra"), bare("a", 32), norm("na"),
                         relu("rb"), dropout("d", 0), bare("b", 32)}),
       relu("r")},
      image);
}

// Each leaves the sums of the norm before it with that norm.
TEST_CASE("residuals behind norms and residuals compute what autograd does") {
  const Shape image{16, 6, 5};
  const auto block = [](const std::string& name) {
    return residual(
        name, {bare(name + "a", 16, 1), norm(name + "na"), relu(name + "ra"),
               bare(name + "b", 16), norm(name + "nb")});
  };
  check_fast({norm("first"), relu("r"), block("one"), relu("r1"), block("two"),
              relu("r2"),
              residual("wider", {bare("wa", 32, 3, 2), norm("wna")},
                       {bare("ws", 32, 1, 2), norm("wns")}),
              relu("r3")},
             image);
  // Where another layer lies between, or the sum has no ReLU.
  check_fast({block("one"), relu("r1"), dropout("d", 0), block("two"),
              layer(LayerKind::tanh, "t"), block("three"), relu("r3")},
             image);
}

TEST_CASE("a backward pass leaves the caller's gradient as it was") {
  const Shape image{16, 5, 5};
  Network network({residual("block", {bare("c", 16), norm("n")}), relu("r")},
                  image, {});
  const at::Tensor x = batch_of(3, image);
  Tape tape;
  const at::Tensor y = network.forward(x, &tape, {.training = true});
  const at::Tensor dy =
      at::randn_like(y).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor before = dy.clone();
  network.backward(dy, tape, true);
  CHECK(dy.equal(before));
}

TEST_CASE("fast layers change neither names nor first weights") {
  const Shape image{3, 16, 16};
  for (const char* arch : {"resnet18", "wide-resnet", "resnet50"}) {
    ModelSpec model;
    model.arch = arch;
    model.width = model.arch == "wide-resnet" ? 1 : 16;
    const std::vector<LayerSpec> layers = expand_model(model, image, 10);
    Network fast(layers, image, {.init_seed = 4});
    Network plain(layers, image, {.init_seed = 4, .fuse = false});
    CHECK(fast.weights().equal(plain.weights()));
    for (size_t i = 0; i < plain.parameter_slices().size(); ++i) {
      const ParameterSlice& slice = plain.parameter_slices()[i];
      CHECK(fast.parameter_slices()[i].name == slice.name);
      CHECK(fast.parameter_slices()[i].layer == slice.layer);
    }
    for (size_t i = 0; i < plain.buffer_slices().size(); ++i) {
      CHECK(fast.buffer_slices()[i].name == plain.buffer_slices()[i].name);
    }
    const at::Tensor x = batch_of(4, image);
    const PassContext context{.training = true, .seed = 3};
    const at::Tensor y = plain.forward(x, nullptr, context);
    CHECK(relative_error(fast.forward(x, nullptr, context), y) < 1e-3);
    CHECK(relative_error(fast.buffers(), plain.buffers()) < 1e-3);
  }
}

TEST_CASE("fast layers in several threads add up the same gradients") {
  const Shape image{16, 8, 8};
  const std::vector<LayerSpec> layers = {
      residual("block", {conv("a", 16), norm("na"), relu("ra"), conv("b", 16),
                         norm("nb")}),
      relu("r"), conv("strided", 32, 3, 2),
      residual("chain", {bare("c", 16, 1), norm("nc"), relu("rc"),
                         bare("d", 32), norm("nd")}),
      relu("r2"),
      // By Strassen's algorithm.
      conv("wide", 128, 1), conv("wider", 128, 1), conv("narrow", 16, 1)};
  const at::Tensor x = batch_of(70, image);
  std::vector<at::Tensor> gradients;
  const int before = at::get_num_threads();
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    Network network(layers, image, {});
    Tape tape;
    const at::Tensor y = network.forward(x, &tape, {.training = true});
    network.backward(y, tape);
    gradients.push_back(network.gradients().clone());
  }
  at::set_num_threads(before);
  CHECK(relative_error(gradients[1], gradients[0]) < 2e-5);
}

TEST_CASE("a repeated pass leaves running statistics alone") {
  const Shape image{16, 4, 4};
  Network network({norm("n")}, image, {});
  const at::Tensor x = batch_of(3, image) * 3 + 1;
  network.forward(x, nullptr, {.training = true, .repeated = true});
  CHECK(network.buffers().narrow(0, 0, 16).abs().max().item<float>() == 0);
  network.forward(x, nullptr, {.training = true});
  const at::Tensor mean = x.mean({0, 2, 3}) * 0.1;
  const at::Tensor variance = x.var(at::IntArrayRef{0, 2, 3}) * 0.1 + 0.9;
  CHECK(relative_error(network.buffers(), at::cat({mean, variance})) < 1e-5);
}

TEST_CASE("a chain's norms move their running statistics once") {
  const Shape image{16, 8, 8};
  const std::vector<LayerSpec> layers = {
      residual("block", {bare("a", 16), norm("na"), relu("ra"),
                         bare("b", 16, 1), norm("nb")}),
      relu("r")};
  Network fast(layers, image, {.init_seed = 4});
  Network plain(layers, image, {.init_seed = 4, .fuse = false});
  const at::Tensor x = batch_of(70, image) + 100;
  for (Network* network : {&fast, &plain}) {
    network->forward(x, nullptr, {.training = true, .repeated = true});
    network->forward(x, nullptr, {.training = true});
  }
  CHECK(relative_error(fast.buffers(), plain.buffers()) < 1e-5);
}

TEST_CASE("statistics keep their digits where the mean is large") {
  const Shape image{16, 16, 16};
  Network network({norm("n")}, image, {});
  const at::Tensor x = batch_of(8, image) + 3000;
  const at::Tensor y = network.forward(x, nullptr, {.training = true});
  CHECK(y.std().item<double>() == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("an odd first pixel takes no digits from the statistics") {
  const Shape image{16, 16, 16};
  Network network({norm("n")}, image, {});
  at::Tensor x = batch_of(256, image) + 3000;
  x[0].select(1, 0).select(1, 0).fill_(0);  // a corner
  network.forward(x, nullptr, {.training = true});
  const at::Tensor expected =
      x.to(at::kDouble).var(at::IntArrayRef{0, 2, 3}) * 0.1 + 0.9;
  const at::Tensor variance = network.buffers().narrow(0, 16, 16);
  CHECK(relative_error(variance, expected.to(at::kFloat)) < 2e-5);
}

// What a network makes of an image that holds `value`, by fast layers and not.
void check_spread(const std::vector<LayerSpec>& layers, const Shape& image,
                  float value) {
  CAPTURE(layers.size());
  CAPTURE(value);
  Network fast(layers, image, {.init_seed = 4});
  Network plain(layers, image, {.init_seed = 4, .fuse = false});
  at::Tensor x = batch_of(2, image);
  x[1][0][5][5] = value;
  const at::Tensor y = fast.forward(x, nullptr, {});
  const at::Tensor expected = plain.forward(x, nullptr, {});
  CHECK(y.isnan().equal(expected.isnan()));
  CHECK(y.isinf().equal(expected.isinf()));
  CHECK(y.isfinite().any().item<bool>());
  CHECK(relative_error(y.nan_to_num(0, 0, 0), expected.nan_to_num(0, 0, 0)) <
        kFastTolerance);
}

TEST_CASE("Inf and NaN spread as in the plain convolution") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value :
       {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    check_spread({conv("c", 16)}, {16, 12, 12}, value);
    check_spread({conv("c", 16, 1)}, {16, 12, 12}, value);
    check_spread({conv("c", 16, 3, 2)}, {16, 12, 12}, value);
    check_spread({conv("c", 128, 1)}, {128, 24, 24}, value);
    check_spread({residual("b", {bare("a", 16), norm("na"), relu("ra"),
                                 bare("b", 16, 1), norm("nb")}),
                  relu("r")},
                 {16, 12, 12}, value);
    const std::vector<LayerSpec> block = {conv("c", 16), relu("r"),
                                          pool(LayerKind::max_pool, "p")};
    check_spread(block, {16, 12, 12}, value);
    check_spread(block, {3, 12, 12}, value);
  }
}

}  // namespace
}  // namespace dtune
