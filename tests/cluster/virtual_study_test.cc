// Studies on large clusters, in virtual time.
#include "cluster/virtual_study.h"

#include <cmath>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

// The best rate is .01; curves rise towards what their rate is worth.
double value_of(const Point& point, int step, uint64_t seed) {
  const double lr = std::get<double>(point.at("lr"));
  const double miss = std::log10(lr) + 2;
  Rng noise(mix_seed({seed, uint64_t(step)}));
  return 0.95 - 0.05 * miss * miss - 0.3 * std::exp(-0.5 * step) +
         0.002 * noise.normal();
}

VirtualStudyOptions study_on(int nodes, int trials) {
  VirtualStudyOptions options;
  options.cluster.nodes = nodes;
  Parameter lr;
  lr.name = lr.key = "lr";
  lr.low = 1e-4;
  lr.high = 0.5;
  lr.log = true;
  options.recipe.space = SearchSpace({lr});
  options.recipe.sampler.kind = "random";
  options.recipe.scheduler.kind = "asha";
  options.recipe.budget.trials = trials;
  options.objective = value_of;
  return options;
}

// Whatever came in between.
void check_promises(const VirtualStudyResult& result, int trials) {
  CHECK(result.study.state == StudyState::finished);
  CHECK(std::ssize(result.study.trials) == trials);
  CHECK(result.whole);
  for (const std::string& mistake : result.cluster.mistakes) FAIL(mistake);
  CHECK(result.cluster.left_over == 0);
}

}  // namespace

TEST_CASE("fifty nodes that come and go train every trial once") {
  VirtualStudyOptions options = study_on(50, 300);
  options.cluster.wait = 20;
  options.cluster.wall = 1800;
  options.cluster.preempted = 1800;
  const VirtualStudyResult result = run_virtual_study(options);
  check_promises(result, 300);
  CHECK(result.cluster.preempted > 5);
  CHECK(result.cluster.most_agents > 40);
  CHECK(result.utilisation() > result.fixed_utilisation + 0.1);
}

TEST_CASE("reports do not wait until all free slots have a trial") {
  VirtualStudyOptions options = study_on(50, 50);
  options.cluster.queue = false;
  options.cluster.step = 5;
  options.cluster.start = 0;
  options.proposal = 1;
  size_t started = 0;  // when the first report was taken in
  options.stop = [&started](const Study& study, const Trial& /*trial*/) {
    if (started == 0) started = study.trials.size();
    return false;
  };
  check_promises(run_virtual_study(options), 50);
  CHECK(started > 0);
  CHECK(started < 20);
}

TEST_CASE("a budget of steps is kept on nodes that come and go") {
  VirtualStudyOptions options = study_on(20, 1000);
  options.cluster.preempted = 600;
  options.recipe.budget.steps = 400;
  const VirtualStudyResult result = run_virtual_study(options);
  CHECK(result.steps == 400);
  CHECK(result.whole);
  CHECK(result.cluster.mistakes.empty());
}

TEST_CASE("a study in virtual time is the same each time") {
  const auto twice = [] {
    VirtualStudyOptions options = study_on(10, 30);
    options.cluster.preempted = 900;
    return run_virtual_study(options);
  };
  const VirtualStudyResult one = twice();
  const VirtualStudyResult other = twice();
  CHECK(one.seconds == other.seconds);
  CHECK(one.steps == other.steps);
  CHECK(one.cluster.received == other.cluster.received);
}
