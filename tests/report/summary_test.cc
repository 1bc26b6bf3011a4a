#include "dtune/report/summary.h"

#include "report/sample_study.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/report/json.h"
#include "dtune/report/lines.h"

namespace dtune {

using test::sample_facts;
using test::sample_study;

TEST_CASE("the summary at the end of a run") {
  CHECK("\n" + summary_text(sample_study(), sample_facts(), {}) == R"(
fashion: finished after 1m23s of searching (all 6 trials of the budget are done)

best     val_accuracy 0.9125  (trial 4, step 4/4)
         lr=0.04 l2=1e-05 dropout=0.2
final    accuracy 0.9140 on validation (trial 7)
test     accuracy 0.9101, loss 0.2500
model    fashion.files/model.safetensors
search   6 trials: 2 complete, 2 cut (rung), 2 failed (1 diverged, 1 crashed)
failures trial 3 failed at step 2, diverged: val_accuracy is nan
         trial 5 failed at step 0, crashed: killed by signal 9 OOM?
study    fashion.db

next     dtune eval fashion.files/model.safetensors
)");
}

TEST_CASE("the summary shows the end of what a program wrote last") {
  Study study = sample_study();
  study.trials[4].detail =
      "given up after 3 attempts: the program ended with exit code 1; it last "
      "wrote: Traceback (most recent call last):\n  File \"train.py\", line 4\n"
      "MemoryError: no 400 MB";
  CHECK(summary_text(study, sample_facts(), {})
            .find("MemoryError: no 400 MB\n") != std::string::npos);
}

TEST_CASE("a study that tunes nothing has no parameters to show") {
  Study study = sample_study();
  study.recipe.space = {};
  for (Trial& trial : study.trials) trial.point.clear();
  CHECK(summary_text(study, sample_facts(), {})
            .find("(trial 4, step 4/4)\n         no parameters\n") !=
        std::string::npos);
}

TEST_CASE("the next command depends on how the study ended") {
  Study study = sample_study();
  StudyFacts facts = sample_facts();
  facts.database = "my study.db";
  study.state = StudyState::interrupted;
  CHECK(next_command(study, facts) == "dtune resume 'my study.db'");
  study.state = StudyState::failed;
  CHECK(next_command(study, facts) == "dtune status 'my study.db'");
  Study empty = study;
  empty.trials.clear();
  CHECK(next_command(empty, facts) == "dtune resume 'my study.db'");
  // What is spent is not granted again.
  empty.searched_seconds = facts.budget_seconds = 600;
  CHECK(next_command(empty, facts) ==
        "dtune resume 'my study.db' --time +600s");
  study.state = StudyState::finished;
  facts.result->model = "";
  CHECK(next_command(study, facts) == "dtune best 'my study.db'");
}

TEST_CASE("a study that went on does not say why it had ended before") {
  Study study = sample_study();
  StudyFacts facts = sample_facts();
  facts.result->why = "the budget is spent";
  study.state = StudyState::finished;
  CHECK(why_ended(study, facts) == "the budget is spent");
  CHECK(summary_text(study, facts, {}).find("(the budget is spent)") !=
        std::string::npos);
  for (const StudyState state :
       {StudyState::running, StudyState::interrupted}) {
    study.state = state;
    CHECK(why_ended(study, facts).empty());
    CHECK(summary_text(study, facts, {}).find("(the budget is spent)") ==
          std::string::npos);
  }
}

TEST_CASE("trials that called their points invalid spend no budget") {
  Study study = sample_study();
  study.trials[4].state = TrialState::invalid;
  CHECK(status_text(study, sample_facts(), {}, 2).find("spent    5 of 6 tri") !=
        std::string::npos);
}

TEST_CASE("the status lists budgets, failures and the best trials") {
  const std::string text = status_text(sample_study(), sample_facts(), {}, 2);
  CHECK(text.find("goal     maximize val_accuracy\n") != std::string::npos);
  CHECK(text.find("spent    6 of 6 trials, 1m23s of 10m00s, 12 steps\n") !=
        std::string::npos);
  CHECK(text.find("trial 5 failed at step 0, crashed: killed") !=
        std::string::npos);
  CHECK(text.find("       7  final ") != std::string::npos);
  CHECK(text.find("*      4  complete ") != std::string::npos);
  CHECK(text.find("  and 5 more\n") != std::string::npos);
}

TEST_CASE("the status names nodes that rest, and for how long") {
  Study study = sample_study();
  for (Trial& trial : study.trials) trial.curve.clear();
  study.trials[0].curve.resize(1);
  study.trials[0].curve[0].sequence = 1;
  // Trial 1 works on `good`, once; the others fail on `bad`.
  std::vector<TrialEvent> events;
  const auto add = [&](TrialId trial, TrialState state, const char* node,
                       int failures, int64_t wall_ms) {
    TrialEvent event;
    event.trial = trial;
    event.state = state;
    event.node = node;
    event.failures = failures;
    event.wall_ms = wall_ms;
    event.session = 1;
    event.after_report = trial == 1 ? 0 : 1;
    events.push_back(event);
  };
  add(1, TrialState::running, "good", 0, 0);
  for (const TrialId trial : {2, 3, 4}) {
    CHECK(resting_nodes(study, events, 9'000).empty());
    add(trial, TrialState::running, "bad", 0, 1'000 * trial);
    add(trial, TrialState::failed, "bad", 1, 1'000 * trial + 500);
  }
  StudyFacts facts = sample_facts();
  facts.resting = resting_nodes(study, events, 9'000);
  REQUIRE(facts.resting.size() == 1);
  CHECK(
      status_text(sample_study(), facts, {})
          .find(
              "resting  node bad is given no trial for another 6s: 3 attempts "
              "in a row failed there\n") != std::string::npos);
  const auto json = nlohmann::json::parse(status_json(sample_study(), facts));
  CHECK(json["resting_nodes"][0]["node"] == "bad");
  CHECK(json["resting_nodes"][0]["failures"] == 3);
  CHECK(json["resting_nodes"][0]["seconds_left"] == 5.5);
  CHECK(resting_nodes(study, events, 15'000).empty());  // it has rested
  // A step that is trained there, or a new coordinator, makes up for it.
  study.trials[3].curve.resize(1);
  study.trials[3].curve[0].sequence = 2;
  CHECK(resting_nodes(study, events, 9'000).empty());
  study.trials[3].curve.clear();
  add(5, TrialState::running, "good", 0, 5'000);
  events.back().session = 2;
  CHECK(resting_nodes(study, events, 9'000).empty());
}

TEST_CASE("where trials fail on all nodes, none rests") {
  const Study study = sample_study();
  std::vector<TrialEvent> events;
  for (int i = 0; i < 8; ++i) {
    TrialEvent event;
    event.trial = i + 1;
    event.node = "only";
    event.failures = 1;
    events.push_back(event);
  }
  CHECK(resting_nodes(study, events, 100).empty());
}

TEST_CASE("the best point can be copied into a command") {
  const std::string text = best_text(sample_study(), sample_facts(), {});
  CHECK(text.find("  --set space.lr=0.04\n"
                  "  --set space.l2=1e-05\n"
                  "  --set space.dropout=0.2\n") != std::string::npos);
  Study empty;
  CHECK(best_text(empty, {}, {}) ==
        "best     none: no trial has a finite val_accuracy\n");
  CHECK(pareto_text(empty, {}) == "no trial has a finite val_accuracy\n");
}

TEST_CASE("the best point of a command is a line for a shell") {
  Study study = sample_study();
  study.recipe.command.emplace().argv = {"train it", "--lr", "{lr}"};
  study.recipe.command->directory = "/my work";
  study.recipe.command->environment = {{"FLAVOR", "sour cherry"}};
  CHECK(again_command(study, sample_facts()) ==
        "(cd '/my work' && DTUNE_PARAM_DROPOUT=0.2 DTUNE_PARAM_L2=1e-05 "
        "DTUNE_PARAM_LR=0.04 FLAVOR='sour cherry' 'train it' --lr 0.04)");
  study.recipe.command.reset();
  StudyFacts facts = sample_facts();
  facts.database = "my work/shell.db";
  CHECK(again_command(study, facts) ==
        "dtune best 'my work/shell.db' --recipe > shell-best.yaml && dtune run "
        "shell-best.yaml");
  CHECK(again_command({}, facts).empty());
}

TEST_CASE("rows of several nodes name the node") {
  Study study = sample_study();
  study.trials[0].state = TrialState::running;
  study.trials[0].slot = 3;
  CHECK(status_text(study, sample_facts(), {}, 0).find("slot 3") !=
        std::string::npos);
  CHECK(status_text(study, sample_facts(), {}, 0).find("box slot 3") ==
        std::string::npos);
  study.trials[1].node = "gpu1";
  CHECK(status_text(study, sample_facts(), {}, 0).find("box slot 3") !=
        std::string::npos);
}

TEST_CASE("a trial is shown with its curve and its history") {
  const Study study = sample_study();
  const std::vector<TrialEvent> events = {
      {3, 1, TrialState::running, Reason::assigned, "",
       study.created_ms + 1000},
      {3, 1, TrialState::failed, Reason::diverged, "val_accuracy is nan",
       study.created_ms + 5500}};
  CHECK("\n" + trial_text(study, study.trial(3), events, {}) == R"(
trial 3 of fashion: failed
reason   diverged: val_accuracy is nan
params   lr=0.03 l2=1e-05 dropout=0.2
steps    2/4

step   time  val_accuracy  val_loss
   1  2.50s        0.1000    0.9000
   2  2.50s           nan       nan

       1.0s  attempt 1  running   assigned
       5.5s  attempt 1  failed    diverged: val_accuracy is nan
)");
}

TEST_CASE("a list of studies has one line each, problems below") {
  StudyRow row;
  row.name = "fashion";
  row.metric = "val_accuracy";
  row.searched_seconds = 83;
  row.state = StudyState::running;  // but no process works on it
  StudyListing broken;
  broken.database = "x.db";
  broken.problem = "x.db: the database is damaged";
  CHECK("\n" + ls_text({listing_of(sample_study(), row, "fashion.db"), broken},
                       {}) ==
        R"(
file        study    state    trials   time  metric          best
fashion.db  fashion  stopped       6  1m23s  val_accuracy  0.9125
x.db: the database is damaged
)");
  CHECK(ls_text({}, {}) == "no studies here\n");
}

TEST_CASE("a final training is shown with its own last step") {
  Study study = sample_study();
  Trial& trial = study.trial(7);
  REQUIRE(trial.kind == TrialKind::final);
  trial.target_step = 9;
  trial.curve.clear();
  CHECK(trial_text(study, trial, {}, {}).find("steps    0/9\n") !=
        std::string::npos);
  const std::string status = status_text(study, sample_facts(), {}, 7);
  CHECK_MESSAGE(status.find(" 0/9 ") != std::string::npos, status);
  CHECK(state_line(study, trial, 1).find(" at step 0/9") != std::string::npos);
  StepReport report;
  report.step = 5;
  CHECK(report_line(study, trial, report, 1).find(" step 5/9 ") !=
        std::string::npos);
}

TEST_CASE("every event is one line that grep can find") {
  Study study = sample_study();
  const Trial& trial = study.trial(2);
  CHECK(report_line(study, trial, trial.curve[2], 12.34) ==
        "12.3s trial 2 step 3/4 val_accuracy=0.8750 (best 0.9125) lr=0.02 "
        "l2=1e-05 dropout=0.2");
  StepReport last = trial.curve[2];  // as of a final training
  last.metrics = {{"train_accuracy", 0.9}};
  CHECK(report_line(study, trial, last, 12.34) ==
        "12.3s trial 2 step 3/4 train_accuracy=0.9000 (best 0.9125) lr=0.02 "
        "l2=1e-05 dropout=0.2");
  last.metrics.clear();
  CHECK(report_line(study, trial, last, 12.34).find("val_accuracy=missing") !=
        std::string::npos);
  CHECK(state_line(study, study.trial(5), 13) ==
        "13.0s trial 5 failed at step 0/4: crashed (killed by signal 9 OOM?)");
  CHECK(notice_line("disk\nfull", 0) == "0.0s notice: disk full");
  CHECK(finished_line(study, 99) ==
        "99.0s study fashion finished: 6 trials: 2 complete, 2 cut (rung), 2 "
        "failed (1 diverged, 1 crashed) (best 0.9125)");
  study.trials.clear();
  CHECK(started_line(study, 0) ==
        "0.0s study fashion started: maximize val_accuracy, horizon 4, seed 7");
}

}  // namespace dtune
