#include "dtune/pipeline/partition.h"

#include <algorithm>
#include <limits>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

struct Instance {
  std::vector<PipelineUnit> units;
  std::vector<StageHost> hosts;
};

double stage_seconds(const Instance& instance, size_t stage, size_t first,
                     size_t end) {
  double seconds = 0;
  for (size_t i = first; i < end; ++i) seconds += instance.units[i].seconds;
  const StageHost& host = instance.hosts[stage];
  const double transfer =
      stage > 0 && host.bandwidth > 0
          ? instance.units[first].input_bytes / host.bandwidth
          : 0;
  return std::max(seconds / host.speed, transfer);
}

// The best slowest stage of units [first, ...) in stages [stage, ...).
double brute_force(const Instance& instance, size_t stage, size_t first) {
  const size_t count = instance.units.size();
  if (stage + 1 == instance.hosts.size()) {
    return stage_seconds(instance, stage, first, count);
  }
  double best = std::numeric_limits<double>::infinity();
  const size_t left = instance.hosts.size() - stage - 1;
  for (size_t end = first + 1; end + left <= count; ++end) {
    best = std::min(best, std::max(stage_seconds(instance, stage, first, end),
                                   brute_force(instance, stage + 1, end)));
  }
  return best;
}

Instance random_instance(Rng& rng) {
  Instance instance;
  const auto stages = static_cast<size_t>(rng.uniform(1, 5));
  const size_t units = stages + static_cast<size_t>(rng.uniform(0, 9));
  for (size_t i = 0; i < units; ++i) {
    instance.units.push_back({rng.uniform(0, 1), rng.uniform(1, 1000)});
  }
  for (size_t j = 0; j < stages; ++j) {
    const double bandwidth = rng.uniform(0, 1) < 0.5 ? 0 : rng.uniform(50, 900);
    instance.hosts.push_back({rng.uniform(0.25, 2), bandwidth});
  }
  return instance;
}

}  // namespace

TEST_CASE("the cut is the best of all that there are") {
  Rng rng(5);
  for (int i = 0; i < 300; ++i) {
    const Instance instance = random_instance(rng);
    const Partition cut = cut_into_stages(instance.units, instance.hosts);
    CAPTURE(i);
    REQUIRE(cut.first.size() == instance.hosts.size());
    CHECK(cut.first[0] == 0);
    double slowest = 0;
    for (size_t j = 0; j < cut.first.size(); ++j) {
      const size_t end = cut.end(j, instance.units.size());
      REQUIRE(cut.first[j] < end);
      const double seconds = stage_seconds(instance, j, cut.first[j], end);
      CHECK(cut.seconds[j] == doctest::Approx(seconds));
      slowest = std::max(slowest, seconds);
    }
    CHECK(cut.slowest == doctest::Approx(slowest));
    CHECK(cut.slowest == doctest::Approx(brute_force(instance, 0, 0)));
  }
}

TEST_CASE("a slow computer gets fewer layers") {
  const std::vector<PipelineUnit> units(10, PipelineUnit{1, 0});
  const std::vector<StageHost> hosts = {{1, 0}, {0.25, 0}};
  const Partition cut = cut_into_stages(units, hosts);
  CHECK(cut.first == std::vector<size_t>{0, 8});
  CHECK(cut.slowest == doctest::Approx(8));
}

TEST_CASE("a cut with much to send is avoided where the network is slow") {
  const std::vector<PipelineUnit> units = {{1, 10}, {1, 10}, {1, 900}, {1, 10}};
  const std::vector<StageHost> fast = {{1, 0}, {1, 0}};
  const std::vector<StageHost> slow = {{1, 0}, {1, 100}};
  CHECK(cut_into_stages(units, fast).first[1] == 2);
  CHECK(cut_into_stages(units, slow).first[1] != 2);
}

TEST_CASE("more stages than layers are refused with what to do") {
  const std::vector<PipelineUnit> units(2, PipelineUnit{1, 0});
  const std::vector<StageHost> hosts(3);
  try {
    cut_into_stages(units, hosts);
    FAIL("it must be refused");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    const std::string text = error.what();
    CHECK(text.find("3 stages") != std::string::npos);
    CHECK(text.find("use at most 2 stages") != std::string::npos);
  }
}
