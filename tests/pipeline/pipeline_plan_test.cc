#include "dtune/pipeline/pipeline_plan.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include "pipeline_fixture.h"
#include <doctest/doctest.h>

#include "dtune/pipeline/pipeline_costs.h"

using namespace dtune;  // NOLINT: a test

namespace {

// What members put into their gang's store.
class SharedValues {
 public:
  PlanStore store() {
    return {
        .set = [this](const auto& key, const auto& value) { set(key, value); },
        .get = [this](const auto& key) { return get(key); }};
  }
  void set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60),
                      [&] { return values_.contains(key); });
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

PlanRequest request_for(bool deterministic) {
  PlanRequest request;
  request.layers = expand_model({.layers = plain_layers()}, {2, 8, 8}, 3);
  request.input = {2, 8, 8};
  request.samples = 4;
  request.deterministic = deterministic;
  request.key = "plan";
  return request;
}

std::vector<PipelinePlan> agree(const PlanRequest& request, int stages,
                                int replicas) {
  const int members = stages * replicas;
  const auto groups = make_local_groups(members);
  SharedValues values;
  std::vector<PipelinePlan> plans(static_cast<size_t>(members));
  on_members(members, [&](int member) {
    const PipelinePlace place{
        {member % stages, stages}, member / stages, replicas};
    const auto at = static_cast<size_t>(member);
    plans[at] = agree_on_plan(request, place, *groups[at],
                              std::chrono::seconds(60), values.store());
  });
  return plans;
}

}  // namespace

TEST_CASE("members agree on one cut, measured or counted") {
  for (const bool deterministic : {false, true}) {
    const PlanRequest request = request_for(deterministic);
    for (const int replicas : {1, 2}) {
      const auto plans = agree(request, 2, replicas);
      for (const PipelinePlan& plan : plans) {
        REQUIRE(plan.first_layer.size() == 2);
        CHECK(plan.first_layer[0] == 0);
        CHECK(plan.first_layer[1] > 0);
        CHECK(plan.first_layer[1] < 11);
        CHECK(plan.first_layer == plans[0].first_layer);
        CHECK(plan.predicted[0] > 0);
        CHECK(plan.predicted == plans[0].predicted);
      }
    }
  }
  const PlanRequest counted = request_for(true);
  CHECK(agree(counted, 3, 1)[0].first_layer ==
        agree(counted, 3, 2)[0].first_layer);
}

TEST_CASE("what is computed as one is parted only where it must be") {
  const PlanRequest request = request_for(true);
  const auto candidates = [&](int stages) {
    return stage_candidates(request.layers, request.input, request.network,
                            stages);
  };
  // Two input channels: conv1, relu1 and pool1 are one block on the CPU.
  CHECK(candidates(2) == std::vector<int>{0, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(candidates(10).size() == 11);
  const PipelinePlan deep = agree(request, 11, 1)[0];
  for (int i = 0; i < 11; ++i) {
    CHECK(deep.first_layer[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("costs of layers are positive and grow with their work") {
  const PlanRequest request = request_for(false);
  const std::vector<int> first = {0, 4};
  for (const auto& units : {count_units(request.layers, request.input, first),
                            measure_units(request.layers, request.input, first,
                                          request.network, 8, 0.2)}) {
    REQUIRE(units.size() == 2);
    CHECK(units[0].seconds > 0);
    CHECK(units[1].seconds > 0);
    CHECK(units[1].input_bytes == 16 * 4 * 4 * 4);
  }
  CHECK(measure_speed(at::kCPU) > 0);
}

TEST_CASE("a plan says which stage has which layers") {
  const PlanRequest request = request_for(true);
  const std::string text = describe({{0, 4}, {0.001, 0.0005}}, request.layers);
  CHECK(text ==
        "stages 1: conv1 to drop1 (1.000 ms a sample), 2: conv2 to fc2 (0.500 "
        "ms a sample)");
}
