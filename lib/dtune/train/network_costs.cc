#include "dtune/train/network_costs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/base/order_statistic.h"
#include "dtune/study/metrics.h"

namespace dtune {
namespace {

bool is_cost(const std::string& metric) {
  const auto& names = cost_metrics();
  return std::find(names.begin(), names.end(), metric) != names.end();
}

double median_latency(Network& network, const at::Tensor& image) {
  constexpr int kWarmUp = 3;
  constexpr int kMeasured = 21;
  std::vector<double> milliseconds;
  for (int i = 0; i < kWarmUp + kMeasured; ++i) {
    const MonoTime begin = system_clock().now();
    network.forward(image, nullptr, PassContext{}).to(at::kCPU);
    const double seconds = to_seconds(system_clock().now() - begin);
    if (i >= kWarmUp) milliseconds.push_back(1000 * seconds);
  }
  return upper_median(std::move(milliseconds));
}

}  // namespace

bool asks_for_costs(const ObjectiveSpec& objective) {
  const auto& bounds = objective.require;
  const auto& others = objective.trade_offs;
  return std::any_of(bounds.begin(), bounds.end(),
                     [](const auto& one) { return is_cost(one.metric); }) ||
         std::any_of(others.begin(), others.end(),
                     [](const auto& one) { return is_cost(one.metric); });
}

std::map<std::string, double> measure_costs(Network& network,
                                            const Shape& image,
                                            at::Device device) {
  const at::Tensor x =
      at::zeros({1, image.channels, image.height, image.width},
                at::TensorOptions(at::kFloat)
                    .device(device)
                    .memory_format(at::MemoryFormat::ChannelsLast));
  return {{"parameters", static_cast<double>(network.weights().numel())},
          {"latency_ms", median_latency(network, x)}};
}

}  // namespace dtune
