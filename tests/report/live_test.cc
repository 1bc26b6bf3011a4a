#include "dtune/report/live.h"

#include <sstream>

#include "report/sample_study.h"
#include <doctest/doctest.h>

namespace dtune {
namespace {

Study running_study() {
  Study study = test::sample_study();
  study.state = StudyState::running;
  study.trials.pop_back();  // the final one
  study.trials[0].state = TrialState::running;
  study.trials[5].state = TrialState::running;
  study.trials[0].slot = 1;
  return study;
}

ClusterStatus two_slots() {
  ClusterStatus status;
  status.elapsed_seconds = 83;
  status.remaining_low = 300;
  status.remaining_high = 324;
  status.done_fraction = 0.25;
  status.slots = {{"box", 0, 6, "training", 1, 0.43, 1234.6, 0},
                  {"box", 1, 1, "starting", 1, 0, 0, 0}};
  return status;
}

std::vector<std::string> lines_of(const std::string& frame) {
  std::vector<std::string> lines;
  std::istringstream stream(frame);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("the frame of a small study") {
  const std::string frame =
      render_live(running_study(), two_slots(), {80, 24}, false, true);
  CHECK("\n" + frame == R"(
fashion  running  1m23s, about 5m12s left
█████░░░░░░░░░░░░░░░  25%  6 trials: 2 running, 2 complete, 2 failed (1 diverge…
best 0.9125 val_accuracy  trial 4 step 4/4  lr=0.04 l2=1e-05 dropout=0.2

   trial  state     curve  step    last    best    lr     l2  dropout  why
       1  running   ▂       1/4  0.6000  0.6000  0.01  1e-05      0.2  slot 1
       6  running   ▁       1/4  0.5000  0.5000  0.06  1e-05      0.2  slot 0
*      4  complete  ▅▇██    4/4  0.9125  0.9125  0.04  1e-05      0.2
       2  complete  ▄▆██    4/4  0.8700  0.8750  0.02  1e-05      0.2
       3  failed    ▁       2/4     nan  0.1000  0.03  1e-05      0.2  diverged
       5  failed            0/4                  0.05  1e-05      0.2  crashed

slots  0: trial 6 43% 1,235 img/s  1: trial 1 starting
)");
}

TEST_CASE("ranks of one trial have lines of their own") {
  ClusterStatus status = two_slots();
  for (SlotStatus& slot : status.slots) slot.trial = 6;
  status.slots[0].member = 1;
  status.slots[0].share = 0.2;
  status.slots[0].late = 3;
  status.slots[0].staleness = 1.25;
  status.slots[1].member = 0;
  status.slots[1].share = 0.8;
  status.slots[1].wait_share = 0.12;
  const auto lines =
      lines_of(render_live(running_study(), status, {80, 24}, false, true));
  REQUIRE(lines.size() > 2);
  CHECK(lines[lines.size() - 2] ==
        "  trial 6  rank 0 on box 1   80% of the batch, waits 12%");
  CHECK(lines[lines.size() - 1] ==
        "  trial 6  rank 1 on box 0   20% of the batch, late 3 times, "
        "staleness 1.2");
}

TEST_CASE("the slot that has been silent for the longest time is named") {
  ClusterStatus status = two_slots();
  status.slots[0].seconds_since_report = 59;
  CHECK(render_live(running_study(), status, {80, 24}, false, true)
            .find("since its last report") == std::string::npos);
  status.slots[0].seconds_since_report = 90;
  status.slots[1].seconds_since_report = 200;
  const std::string frame =
      render_live(running_study(), status, {80, 24}, false, true);
  CHECK_MESSAGE(
      frame.find("quiet  trial 1 on box 1: 3m20s since its last report") !=
          std::string::npos,
      frame);
}

TEST_CASE("a frame fits every terminal") {
  Study study = running_study();
  for (TrialId id = 7; id < 60; ++id) {
    study.trials.push_back(test::sample_trial(id, TrialState::cut, Reason::rung,
                                              {0.01 * double(id)}));
    study.trials.back().detail = "below the best third of nine trials";
  }
  for (const bool color : {false, true}) {
    for (const int columns : {1, 20, 40, 79, 80, 132, 300}) {
      for (const int rows : {1, 2, 4, 6, 8, 12, 24, 100}) {
        CAPTURE(columns);
        CAPTURE(rows);
        const auto lines = lines_of(
            render_live(study, two_slots(), {columns, rows}, color, true));
        CHECK(lines.size() <= size_t(std::max(1, rows - 1)));
        for (const std::string& line : lines) {
          CAPTURE(line);
          CHECK(display_width(printable(line)) <= std::max(20, columns));
        }
      }
    }
  }
  const std::string low =
      render_live(study, two_slots(), {80, 12}, false, true);
  CHECK(low.find("  and 56 more\n") != std::string::npos);
  CHECK(low.find("slots  0: ") != std::string::npos);
}

TEST_CASE("a study without trials or values has a frame, too") {
  Study study;
  study.recipe.study = "new\x1b[2J";
  const std::string frame = render_live(study, {}, {80, 24}, false, false);
  CHECK(frame.find("new  running  0s\n") == 0);
  CHECK(frame.find("0 trials") != std::string::npos);
  CHECK(frame.find("no val_accuracy yet") != std::string::npos);
  study.trials.push_back(
      test::sample_trial(1, TrialState::running, Reason::assigned, {}));
  CHECK(render_live(study, {}, {80, 24}, true, true).find("slot 0") !=
        std::string::npos);
}

TEST_CASE("a goal to minimize shows the metric as it is") {
  Study study = running_study();
  study.recipe.objective = {"val_loss", Goal::minimize};
  const std::string frame = render_live(study, {}, {80, 24}, false, false);
  CHECK(frame.find("best 0.0875 val_loss  trial 4 step 4/4") !=
        std::string::npos);
}

TEST_CASE("many slots are summed up") {
  ClusterStatus status;
  for (int i = 0; i < 16; ++i) {
    const bool lost = i == 3;
    status.slots.push_back({"node" + std::to_string(i / 4), i % 4,
                            lost ? 0 : i + 1, lost ? "lost" : "training", 0, 0,
                            lost ? 0 : 100.0, 0});
  }
  const std::string frame =
      render_live(running_study(), status, {80, 24}, false, true);
  CHECK(frame.find("slots  15 of 16 busy, 1 lost, 1,500 img/s\n") !=
        std::string::npos);
}

}  // namespace dtune
