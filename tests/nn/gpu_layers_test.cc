// A GPU's own layers (gpu_norm.h, gpu_pool.h) against those of LibTorch.
#include "nn/layers.h"
#include "nn/oracle.h"
#include "skip.h"
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <doctest/doctest.h>

#include "dtune/nn/fuse.h"
#include "dtune/nn/gpu_norm.h"

namespace dtune {
namespace {

std::string gpu_problem() {
  if (!has_gpu_norm()) return "this build has no kernels for CUDA";
  const bool any = c10::impl::hasDeviceGuardImpl(at::kCUDA) &&
                   c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount() > 0;
  return any ? "" : "there is no GPU";
}

struct Pass {
  at::Tensor y, dx, gradients, buffers;
};

// Of two batches, so that the running statistics have moved.
Pass pass_of(Network& network, const at::Tensor& x, const at::Tensor& dy,
             bool training) {
  Pass pass;
  const at::Device device = network.weights().device();
  for (int batch = 0; batch < 2; ++batch) {
    Tape tape;
    network.gradients().zero_();
    pass.y = network.forward(x.to(device), &tape, {.training = training});
    pass.dx = network.backward(dy.to(device), tape, true).to(at::kCPU);
    pass.y = pass.y.to(at::kCPU);
  }
  pass.gradients = network.gradients().to(at::kCPU);
  pass.buffers = network.buffers().to(at::kCPU);
  return pass;
}

// The largest error of each part.
struct Errors {
  double y, dx, gradients, buffers;
};

Errors errors_of(const Pass& pass, const Pass& expected) {
  return {relative_error(pass.y, expected.y),
          relative_error(pass.dx, expected.dx),
          relative_error(pass.gradients, expected.gradients),
          relative_error(pass.buffers, expected.buffers)};
}

// At most `most`, and what others have, half as much again.
void check_errors(const Errors& errors, const Errors& others, double most) {
  CHECK(errors.y <= most + 1.5 * others.y);
  CHECK(errors.dx <= most + 1.5 * others.dx);
  CHECK(errors.gradients <= most + 1.5 * others.gradients);
  CHECK(errors.buffers <= most + 1.5 * others.buffers);
}

void check_on_gpu(const std::vector<LayerSpec>& layers, const Shape& image,
                  int64_t samples) {
  const at::Device gpu(at::kCUDA, 0);
  at::manual_seed(5);
  const at::Tensor x =
      at::randn({samples, image.channels, image.height, image.width}) * 2 + 3;
  for (const bool training : {true, false}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(training);
      CAPTURE(type == at::kFloat);
      Network exact(layers, image, {.init_seed = 4, .fuse = false});
      Network plain(
          layers, image,
          {.device = gpu, .init_seed = 4, .compute = type, .fuse = false});
      Network fast(layers, image,
                   {.device = gpu, .init_seed = 4, .compute = type});
      at::manual_seed(11);
      const at::Tensor off = at::randn_like(exact.weights()) * 0.1;
      for (Network* network : {&exact, &plain, &fast}) {
        network->weights().add_(off.to(network->weights().device()));
      }
      const at::Tensor dy = at::randn_like(exact.forward(x, nullptr, {}));
      const Pass expected = pass_of(exact, x, dy, training);
      const Pass got = pass_of(fast, x, dy, training);
      // bfloat16 takes ReLUs for off that are on, and the other way about, in
      // layers apart as well.
      const Errors others =
          errors_of(pass_of(plain, x, dy, training), expected);
      check_errors(errors_of(got, expected), others,
                   type == at::kFloat ? 1e-4 : 5e-3);
      // The same bits again.
      Network again(layers, image,
                    {.device = gpu, .init_seed = 4, .compute = type});
      again.weights().add_(off.to(gpu));
      CHECK(pass_of(again, x, dy, training).y.equal(got.y));
    }
  }
}

}  // namespace

TEST_CASE("a GPU's fast norms are the layers that they stand for") {
  if (const std::string problem = gpu_problem(); !problem.empty()) {
    return skip(problem);
  }
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
  for (const int channels : {16, 48, 64, 208}) {
    CAPTURE(channels);
    const Shape image{channels, 9, 7};
    check_on_gpu({norm("n")}, image, 5);
    check_on_gpu({norm("n"), relu("r")}, image, 70);
    check_on_gpu(
        {residual("block", {conv("a", channels), norm("na"), relu("ra"),
                            conv("b", channels), norm("nb")}),
         relu("r")},
        image, 6);
    check_on_gpu({residual("norm alone", {norm("na")}), relu("r")}, image, 6);
    check_on_gpu(
        {residual("no relu", {conv("a", channels), norm("na")}), norm("n")},
        image, 3);
  }
}

TEST_CASE("a GPU's max pools are those of the CPU, NaN included") {
  if (const std::string problem = gpu_problem(); !problem.empty()) {
    return skip(problem);
  }
  const at::Device gpu(at::kCUDA, 0);
  for (const int window : {2, 3}) {
    for (const int channels : {8, 24}) {
      CAPTURE(window);
      CAPTURE(channels);
      const Shape image{channels, 9, 7};
      const std::vector<LayerSpec> layers = {
          pool(LayerKind::max_pool, "p", window, window)};
      Network cpu(layers, image, {});
      Network fast(layers, image, {.device = gpu});
      Network half(layers, image, {.device = gpu, .compute = at::kBFloat16});
      at::manual_seed(5);
      // What bfloat16 holds exactly, with values that are equal.
      at::Tensor x = at::randint(-9, 9, {5, channels, 9, 7}).to(at::kFloat);
      x[0][0][3][3] = NAN;
      Tape tape;
      const at::Tensor y = cpu.forward(x, &tape, {.training = true});
      const at::Tensor dy = at::randint(-9, 9, y.sizes()).to(at::kFloat);
      const at::Tensor dx = cpu.backward(dy, tape, true);
      for (Network* network : {&fast, &half}) {
        const at::Tensor got =
            network->forward(x.to(gpu), &tape, {.training = true});
        CHECK(at::allclose(got.to(at::kCPU), y, 0, 0, /*equal_nan=*/true));
        const at::Tensor gradient = network->backward(dy.to(gpu), tape, true);
        CHECK(gradient.to(at::kCPU).equal(dx));
      }
    }
  }
}

}  // namespace dtune
