// Networks computed as one against the same networks one by one.
#include "dtune/nn/fused_network.h"

#include "nn/layers.h"
#include "nn/oracle.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

// Sums of some hundred float products in another order differ by this much.
constexpr double kTolerance = 2e-5;
constexpr int64_t kSamples = 6;

// A network with weights, input, gradient, seed and dropout rates of its own.
struct Single {
  Network network;
  std::vector<LayerSpec> layers;
  at::Tensor x;
  at::Tensor dy;
  Tape tape;
  uint64_t seed;

  at::Tensor train() {
    network.gradients().zero_();
    const at::Tensor y =
        network.forward(x, &tape, {.training = true, .seed = seed});
    network.backward(dy, tape);
    return y;
  }
};

using Layers = std::function<std::vector<LayerSpec>(double drop)>;

std::vector<Single> make_singles(const Layers& layers, const Shape& shape,
                                 int outputs) {
  at::manual_seed(3);
  std::vector<Single> singles;
  for (int k = 0; k < 3; ++k) {
    const auto seed = static_cast<uint64_t>(k + 1);
    const std::vector<LayerSpec> own = layers(0.2 * k);
    singles.push_back(
        {Network(own, shape, {.init_seed = seed}),
         own,
         at::randn({kSamples, shape.channels, shape.height, shape.width})
             .contiguous(at::MemoryFormat::ChannelsLast),
         at::randn({kSamples, outputs}),
         {},
         seed});
    Network& network = singles.back().network;
    network.weights().add_(at::randn_like(network.weights()), 0.05);
    network.buffers().add_(at::rand_like(network.buffers()), 0.3);
  }
  return singles;
}

at::Tensor rows_of(std::vector<Single>& singles,
                   at::Tensor& (Network::*part)()) {
  std::vector<at::Tensor> rows;
  for (Single& single : singles) rows.push_back((single.network.*part)());
  return at::stack(rows);
}

at::Tensor side_by_side(const std::vector<Single>& singles,
                        at::Tensor Single::*part) {
  std::vector<at::Tensor> parts;
  for (const Single& single : singles) parts.push_back(single.*part);
  return at::cat(parts, 1);
}

PassContext pass_of(const std::vector<Single>& singles,
                    std::vector<OwnPass>& each) {
  for (const Single& single : singles) {
    each.push_back({single.seed, dropout_of(single.layers)});
  }
  return {.training = true, .each = each};
}

void check_as_singles(const Layers& layers, const Shape& shape, int outputs) {
  std::vector<Single> singles = make_singles(layers, shape, outputs);
  FusedNetwork fused(layers(0), shape, 3, {});
  fused.set_weights(rows_of(singles, &Network::weights));
  fused.set_buffers(rows_of(singles, &Network::buffers));
  std::vector<OwnPass> each;
  const PassContext context = pass_of(singles, each);
  Tape tape;
  const at::Tensor y =
      fused.forward(side_by_side(singles, &Single::x), tape, context);
  fused.backward(side_by_side(singles, &Single::dy), tape);
  const at::Tensor gradients = fused.take_gradients();
  const at::Tensor buffers = fused.buffers();
  for (size_t k = 0; k < singles.size(); ++k) {
    CAPTURE(k);
    const auto row = static_cast<int64_t>(k);
    const at::Tensor expected = singles[k].train();
    Network& network = singles[k].network;
    CHECK(relative_error(y.narrow(1, row * outputs, outputs), expected) <
          kTolerance);
    CHECK(relative_error(gradients[row], network.gradients()) < kTolerance);
    if (network.buffers().numel() == 0) continue;
    CHECK(relative_error(buffers[row], network.buffers()) < kTolerance);
  }
  CHECK(fused.take_gradients().eq(0).all().item<bool>());
}

}  // namespace

TEST_CASE("networks computed as one are each what they are alone") {
  check_as_singles(
      [](double p) {
        return zoo("cnn-small", {1, 12, 12}, p);
      },
      {1, 12, 12}, 10);
  check_as_singles(
      [](double p) {
        return zoo("lenet", {3, 28, 28}, p);
      },
      {3, 28, 28}, 10);
}

TEST_CASE("residuals, norms and groups are computed as one") {
  const auto layers = [](double p) -> std::vector<LayerSpec> {
    LayerSpec grouped = conv("conv2", 8);
    grouped.groups = 2;
    return {
        conv("conv1", 8),
        layer(LayerKind::batch_norm, "norm1"),
        layer(LayerKind::relu, "relu1"),
        residual("sum", {grouped, dropout("inside", p)}, {conv("short", 8, 1)}),
        group_norm("norm2", 4),
        layer(LayerKind::gelu, "gelu1"),
        pool(LayerKind::avg_pool, "pool1"),
        dropout("dropout1", p),
        layer(LayerKind::global_avg_pool, "pool2"),
        layer(LayerKind::tanh, "tanh1"),
        linear("linear1", 5)};
  };
  check_as_singles(layers, {2, 8, 8}, 5);
}

}  // namespace dtune
