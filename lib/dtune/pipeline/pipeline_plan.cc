#include "dtune/pipeline/pipeline_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/pipeline/pipeline_costs.h"

namespace dtune {
namespace {

constexpr int64_t kProbeFloats = 1 << 18;  // 1 MiB
constexpr int kProbes = 3;
// Speeds that differ by less are taken for equal: as much may be chance, and
// cuts are not that fine.
constexpr double kSpeedNoise = 0.2;

std::vector<double> read_numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> numbers;
  for (double number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

[[noreturn]] void fail_to_read(const std::string& text) {
  throw Error(ErrorKind::comm,
              fmt::format("pipeline: '{}' cannot be read (all members must run "
                          "one version)",
                          text.substr(0, 60)));
}

// Bytes a second from the stage before, all links at the same time; 0 at the
// first stage.
double measure_bandwidth(const PipelinePlace& place, Collective& group,
                         Duration patience) {
  PipelineLinks links(group, place, patience);
  const at::Tensor sent = at::zeros({kProbeFloats});
  const at::Tensor received = at::zeros({kProbeFloats});
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kProbes; ++i) {
    group.barrier(patience);
    const MonoTime begin = system_clock().now();
    const PipelineMessage message{PipelineMessage::Kind::probe, 0, i};
    PipelineTransfer in;
    PipelineTransfer out;
    if (!place.stage.first()) {
      in = links.start_receive(place.previous(), message, received);
    }
    if (!place.stage.last())
      out = links.start_send(place.next(), message, sent);
    links.wait(in);
    best = std::min(best, to_seconds(system_clock().now() - begin));
    links.wait(out);
  }
  if (place.stage.first()) return 0;
  return static_cast<double>(received.nbytes()) / std::max(best, 1e-9);
}

struct MemberSpeed {
  double speed = 1;
  double bandwidth = 0;
};

MemberSpeed read_speed(const std::string& text) {
  const std::vector<double> numbers = read_numbers(text);
  if (numbers.size() != 2 || !(numbers[0] > 0)) fail_to_read(text);
  return {numbers[0], numbers[1]};
}

// By stage; relative to the leader, whose units were measured.
std::vector<StageHost> hosts_of(const PlanRequest& request,
                                const PipelinePlace& place,
                                const PlanStore& store) {
  const auto stages = static_cast<size_t>(place.stage.stages);
  if (request.deterministic) return std::vector<StageHost>(stages);
  std::vector<StageHost> hosts(stages, StageHost{0, 0});
  double leader = 1;
  for (int member = 0; member < place.members(); ++member) {
    const MemberSpeed found =
        read_speed(store.get(fmt::format("{}.speed.{}", request.key, member)));
    if (member == 0) leader = found.speed;
    StageHost& host = hosts[static_cast<size_t>(member) % stages];
    const double ratio = found.speed / leader;
    const double speed = std::abs(ratio - 1) < kSpeedNoise ? 1 : ratio;
    host.speed = host.speed > 0 ? std::min(host.speed, speed) : speed;
    host.bandwidth = host.bandwidth > 0
                         ? std::min(host.bandwidth, found.bandwidth)
                         : found.bandwidth;
  }
  return hosts;
}

PipelinePlan best_plan(const PlanRequest& request, const PipelinePlace& place,
                       const PlanStore& store) {
  const std::vector<int> first = stage_candidates(
      request.layers, request.input, request.network, place.stage.stages);
  std::vector<PipelineUnit> units =
      request.deterministic
          ? count_units(request.layers, request.input, first)
          : measure_units(request.layers, request.input, first, request.network,
                          request.samples);
  if (!request.deterministic) units[0].seconds += request.input_seconds;
  const Partition cut = cut_into_stages(units, hosts_of(request, place, store));
  PipelinePlan plan;
  for (const size_t unit : cut.first) plan.first_layer.push_back(first[unit]);
  plan.predicted = cut.seconds;
  return plan;
}

PipelinePlan read_plan(const std::string& text, size_t stages, size_t layers) {
  const std::vector<double> numbers = read_numbers(text);
  if (numbers.size() != 2 * stages) fail_to_read(text);
  PipelinePlan plan;
  for (size_t i = 0; i < stages; ++i) {
    const double first = numbers[i];
    const double least = i == 0 ? 0 : plan.first_layer.back() + 1;
    const double most = i == 0 ? 0 : static_cast<double>(layers) - 1;
    if (!(first >= least && first <= most)) fail_to_read(text);
    plan.first_layer.push_back(static_cast<int>(first));
    plan.predicted.push_back(numbers[stages + i]);
  }
  return plan;
}

}  // namespace

std::string describe(const PipelinePlan& plan,
                     const std::vector<LayerSpec>& layers) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < plan.first_layer.size(); ++i) {
    const size_t end = i + 1 < plan.first_layer.size()
                           ? static_cast<size_t>(plan.first_layer[i + 1])
                           : layers.size();
    parts.push_back(
        fmt::format("{}: {} to {} ({:.3f} ms a sample)", i + 1,
                    layers[static_cast<size_t>(plan.first_layer[i])].name,
                    layers[end - 1].name, plan.predicted[i] * 1e3));
  }
  return fmt::format("stages {}", fmt::join(parts, ", "));
}

PipelinePlan agree_on_plan(const PlanRequest& request,
                           const PipelinePlace& place, Collective& group,
                           Duration patience, const PlanStore& store) {
  if (!request.deterministic) {
    const double bandwidth = measure_bandwidth(place, group, patience);
    const double speed = measure_speed(request.network.device);
    store.set(fmt::format("{}.speed.{}", request.key, place.member()),
              fmt::format("{} {}", speed, bandwidth));
  }
  const std::string key = request.key + ".cut";
  if (place.leader()) {
    const PipelinePlan plan = best_plan(request, place, store);
    store.set(key, fmt::format("{} {}", fmt::join(plan.first_layer, " "),
                               fmt::join(plan.predicted, " ")));
  }
  return read_plan(store.get(key), static_cast<size_t>(place.stage.stages),
                   request.layers.size());
}

}  // namespace dtune
