#include "dtune/pipeline/pipeline_costs.h"

#include <algorithm>
#include <limits>

#include "dtune/base/clock.h"
#include "dtune/pipeline/pipeline_layout.h"
#include "dtune/train/setup.h"

namespace dtune {
namespace {

constexpr int kPasses = 3;
constexpr int kRuns = 3;              // of a unit in a pass
constexpr double kLongSeconds = 0.5;  // a unit that takes longer runs once
constexpr double kSpeedSeconds = 1;
constexpr double kFlopsPerSecond = 10e9;
constexpr double kBytesPerSecond = 2e9;

double shape_bytes(const Shape& shape) {
  return static_cast<double>(shape.elements()) * sizeof(float);
}

at::Tensor random_input(int64_t samples, const Shape& shape,
                        at::Device device) {
  if (shape.flat) return at::randn({samples, shape.elements()}).to(device);
  return batch_tensor(samples, shape).normal_().to(device);
}

// CUDA runs ahead: reading a value waits for it.
void wait_for(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) tensor.flatten()[0].item<float>();
}

double run_once(Network& network, const at::Tensor& x, Tape& tape,
                bool need_dx) {
  const MonoTime begin = system_clock().now();
  const at::Tensor y = network.forward(x, &tape, {.training = true});
  const at::Tensor dx = network.backward(y, tape, need_dx);
  wait_for(need_dx                           ? dx
           : network.gradients().numel() > 0 ? network.gradients()
                                             : y);
  return to_seconds(system_clock().now() - begin);
}

// Of one unit, seconds for all samples. Units are measured one by one: a device
// need not hold them all.
double measure(const StageLayers& unit, const NetworkOptions& options,
               int64_t samples, bool need_dx) {
  Network network(unit.layers, unit.input, options);
  const at::Tensor x = random_input(samples, unit.input, options.device);
  Tape tape;
  // The first run also makes buffers and chooses kernels.
  const double first = run_once(network, x, tape, need_dx);
  if (first > kLongSeconds) return first;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns; ++i) {
    best = std::min(best, run_once(network, x, tape, need_dx));
  }
  return best;
}

double count(const StageLayers& unit) {
  double flops = 0;
  double bytes = 0;
  for (const LayerInfo& info : infer_shapes(unit.layers, unit.input)) {
    flops += static_cast<double>(info.flops);
    bytes += shape_bytes(info.output);
  }
  return 3 * flops / kFlopsPerSecond + 4 * bytes / kBytesPerSecond;
}

}  // namespace

std::vector<int> stage_candidates(const std::vector<LayerSpec>& layers,
                                  const Shape& input,
                                  const NetworkOptions& options, int stages) {
  std::vector<int> units = network_units(layers, input, options);
  if (static_cast<int>(units.size()) >= stages) return units;
  NetworkOptions apart = options;
  apart.fuse = false;
  return network_units(layers, input, apart);
}

std::vector<PipelineUnit> measure_units(const std::vector<LayerSpec>& layers,
                                        const Shape& input,
                                        std::span<const int> first,
                                        const NetworkOptions& options,
                                        int64_t samples, double seconds) {
  std::vector<PipelineUnit> units(first.size(),
                                  {std::numeric_limits<double>::infinity(), 0});
  const MonoTime begin = system_clock().now();
  for (int pass = 0; pass < kPasses; ++pass) {
    for (size_t i = 0; i < first.size(); ++i) {
      const StageLayers unit =
          layers_of_stage(layers, input, first, static_cast<int>(i));
      const double took = measure(unit, options, samples, i > 0);
      units[i].seconds =
          std::min(units[i].seconds, took / static_cast<double>(samples));
      units[i].input_bytes = shape_bytes(unit.input);
    }
    if (to_seconds(system_clock().now() - begin) > seconds) break;
  }
  return units;
}

std::vector<PipelineUnit> count_units(const std::vector<LayerSpec>& layers,
                                      const Shape& input,
                                      std::span<const int> first) {
  std::vector<PipelineUnit> units;
  for (int i = 0; i < static_cast<int>(first.size()); ++i) {
    const StageLayers unit = layers_of_stage(layers, input, first, i);
    units.push_back({count(unit), shape_bytes(unit.input)});
  }
  return units;
}

double measure_speed(at::Device device) {
  constexpr int64_t kSize = 384;
  constexpr double kOperations = 2.0 * kSize * kSize * kSize;
  const at::Tensor a =
      at::ones({kSize, kSize}, at::TensorOptions(at::kFloat).device(device));
  at::Tensor product = at::mm(a, a);
  wait_for(product);
  const MonoTime begin = system_clock().now();
  double took = 0;
  double operations = 0;
  do {
    at::mm_out(product, a, a);
    wait_for(product);
    operations += kOperations;
    took = to_seconds(system_clock().now() - begin);
  } while (took < kSpeedSeconds);
  return operations / took / 1e9;
}

}  // namespace dtune
