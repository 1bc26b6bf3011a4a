#include <cstdlib>

#include "cluster/local_study.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Everything that a study leaves behind, but for times.
std::string story(const std::string& delay_seed) {
  setenv("TOY_DELAY_SEED", delay_seed.c_str(), 1);
  const TemporaryDirectory folder;
  Recipe recipe = toy::recipe(9);
  recipe.deterministic = true;
  recipe.seed = 5;
  recipe.scheduler.kind = "asha";
  std::vector<Point> points;
  for (int i = 0; i < 9; ++i) {
    const char* mode = i == 3 ? "segv_once" : i == 5 ? "nan" : "learn";
    points.push_back(toy::point(0.1 * ((i * 7) % 9 + 1), mode));
  }
  toy::LocalStudy local(folder.path(),
                        toy::unique("deterministic" + delay_seed), 2, recipe,
                        points);
  const StudyOutcome outcome = local.run();
  unsetenv("TOY_DELAY_SEED");
  std::string text = fmt::format("{} {} {}\n", to_string(outcome.state),
                                 outcome.best, outcome.final_trial);
  for (const Decision& d : local.store->load_decisions()) {
    text += fmt::format("{} {} {} {} {}\n", d.number, d.trial, d.action, d.step,
                        d.why);
  }
  for (const TrialEvent& e : local.store->load_events(0)) {
    text += fmt::format("{} {} {} {}\n", e.trial, e.attempt, to_string(e.state),
                        to_string(e.reason));
  }
  for (const Trial& t : local.store->load_trials()) {
    text += fmt::format("{} {} {} {} {}:", t.id, t.attempt, t.slot, t.seed,
                        to_string(t.state));
    for (const StepReport& r : t.curve) {
      for (const auto& [name, value] : r.metrics) {
        text += fmt::format(" {}={}", name, value);
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE(
    "a deterministic study has the same record, whichever slot was faster") {
  const std::string once = story("1");
  CHECK(once.find("finished") == 0);
  CHECK(story("2") == once);
  CHECK(story("3") == once);
}
