// The parts of cluster that need no process: retries, budgets, warm sessions,
// sidecars, lines of programs.
#include <cmath>

#include "cluster/toy.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/cluster/attempt_log.h"
#include "dtune/cluster/backup_copies.h"
#include "dtune/cluster/budget.h"
#include "dtune/cluster/command_lines.h"
#include "dtune/cluster/records.h"
#include "dtune/cluster/retry_policy.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/cluster/trial_gangs.h"
#include "dtune/cluster/warm_sessions.h"
#include "dtune/study/node_health.h"

using namespace dtune;  // NOLINT: a test

namespace {

class FixedSession final : public TrialSession {
 public:
  FixedSession(int steps, uint64_t bytes) : steps_(steps), bytes_(bytes) {}
  int steps_done() const override { return steps_; }
  StepReport run_step(const std::atomic<bool>&) override { return {}; }
  uint64_t resident_bytes() const override { return bytes_; }
  std::map<std::string, double> finish_final() override { return {}; }

 private:
  int steps_;
  uint64_t bytes_;
};

std::unique_ptr<TrialSession> session(int steps, uint64_t bytes = 10) {
  return std::make_unique<FixedSession>(steps, bytes);
}

control::Report report_of(TrialId trial, int step) {
  control::Report report;
  report.trial = trial;
  report.report.step = step;
  report.report.metrics = {{"val_accuracy", 0.1 * step}};
  return report;
}

}  // namespace

TEST_CASE("what would fail the same way again is not tried again") {
  AttemptHistory first{1, Reason::none, -1};
  CHECK(should_retry(Reason::crashed, 1, first, 2));
  CHECK(should_retry(Reason::node_lost, -1, first, 2));
  CHECK(!should_retry(Reason::diverged, -1, first, 2));
  CHECK(!should_retry(Reason::out_of_memory, -1, first, 2));
  CHECK(!should_retry(Reason::said_invalid, 42, first, 2));
  CHECK(!should_retry(Reason::wall_clock, -1, first, 2));
  AttemptHistory same{2, Reason::bad_output, 3};
  CHECK(!should_retry(Reason::bad_output, 3, same, 5));
  CHECK(should_retry(Reason::bad_output, 4, same, 5));
  AttemptHistory often{3, Reason::killed, -1};
  CHECK(!should_retry(Reason::killed, -1, often, 2));
  CHECK(retry_rule(Reason::wall_clock).final_state == TrialState::timed_out);
}

TEST_CASE("a trial under which node after node is lost is given up") {
  AttemptLog log(2);
  for (int i = 0; i < 10; ++i) CHECK(log.node_lost(1));
  CHECK_FALSE(log.node_lost(1));
  CHECK(log.node_lost(2));
}

TEST_CASE("a node with repeated failures rests, longer each time") {
  NodeHealth nodes;
  MonoTime now{};
  CHECK_FALSE(nodes.failed("a", now));
  CHECK_FALSE(nodes.failed("a", now));
  CHECK_FALSE(nodes.rests("a", now));
  CHECK(nodes.failed("a", now) == std::chrono::seconds(10));
  CHECK(nodes.rests("a", now));
  CHECK_FALSE(nodes.rests("b", now));
  now += std::chrono::seconds(10);
  CHECK_FALSE(nodes.rests("a", now));
  CHECK(nodes.failed("a", now) == std::chrono::seconds(20));
  for (int i = 0; i < 20; ++i) nodes.failed("a", now);
  CHECK(nodes.failed("a", now) == std::chrono::minutes(10));
  nodes.worked("a");
  CHECK_FALSE(nodes.rests("a", now));
  CHECK_FALSE(nodes.failed("a", now));
}

TEST_CASE("a budget counts what was spent before, and not what is invalid") {
  Study study = toy::study(toy::recipe(3), "budget");
  for (TrialId id = 1; id <= 3; ++id) {
    Trial trial;
    trial.id = id;
    if (id == 3) trial.state = TrialState::invalid;
    trial.curve.resize(2);
    trial.curve[0].step = 1;
    trial.curve[1].step = 2;
    study.trials.push_back(trial);
  }
  BudgetSpec spec{3, std::chrono::seconds(10), 9};
  BudgetMeter meter(spec, study);
  CHECK(meter.trials() == 2);
  CHECK(meter.trials_left());
  meter.trial_started();
  CHECK(!meter.trials_left());
  CHECK(meter.steps_left(2) == 9 - meter.steps() - 2);
  CHECK(!meter.time_spent(9.9));
  CHECK(meter.time_spent(10));
}

TEST_CASE("warm sessions leave in the order in which they were last used") {
  WarmSessions warm;
  warm.set_limits(25, 0);
  warm.put(1, 1, session(2));
  warm.put(2, 1, session(2));
  warm.put(3, 1, session(2));  // 30 bytes: the first goes
  CHECK(warm.size() == 2);
  CHECK(warm.take(1, 2, 2) == nullptr);
  CHECK(warm.take(2, 2, 2) != nullptr);
  warm.set_limits(1000, 1);
  warm.put(4, 1, session(2));
  CHECK(warm.size() == 1);
  warm.put(5, 1, session(2, 5000));  // a number that is given counts alone
  CHECK(warm.size() == 1);
  CHECK(warm.take(5, 2, 2) != nullptr);
  warm.set_limits(1000, 0);
  warm.put(6, 1, session(2, 5000));  // larger than all that is allowed
  CHECK(warm.size() == 0);
}

TEST_CASE("a warm session is of use only where no other went on") {
  WarmSessions warm;
  warm.set_limits(1000, 0);
  warm.put(1, 1, session(2));
  CHECK(warm.take(1, 3, 2) == nullptr);  // attempt 2 was somewhere else
  CHECK(warm.size() == 0);
  warm.put(1, 1, session(2));
  CHECK(warm.take(1, 2, 3) == nullptr);  // the database has a step more
  warm.put(1, 1, session(2));
  CHECK(warm.take(1, 2, 2) != nullptr);
}

TEST_CASE("a sidecar gives back the reports of its trial, and no other's") {
  const TemporaryDirectory folder;
  const auto checkpoint = folder.path() / "c";
  const std::vector<control::Report> reports{report_of(4, 2), report_of(4, 3)};
  write_sidecar(checkpoint, "study", reports);
  const auto back = read_sidecar(checkpoint, "study", 4);
  REQUIRE(back.size() == 2);
  CHECK(back[1].report.metrics.at("val_accuracy") == doctest::Approx(0.3));
  CHECK(read_sidecar(checkpoint, "study", 5).empty());
  CHECK(read_sidecar(checkpoint, "other", 4).empty());
  CHECK(read_sidecar(folder.path() / "d", "study", 4).empty());
}

TEST_CASE("a sidecar's bytes stay what they have always been") {
  const std::string_view kStored =
      "9301a67265706f727489a4736c6f7401a5747269616c07a7617474656d707402"
      "ac636865636b706f696e746564c3a47374657003a76d65747269637382ac7661"
      "6c5f6163637572616379cb3fe0000000000000a876616c5f6c6f7373cb7ff000"
      "0000000000a77365636f6e6473cb3ff8000000000000b2636865636b706f696e"
      "745f7365636f6e6473cb3fd0000000000000a46c617374c2";
  control::Report report;
  report.slot = 1;
  report.trial = 7;
  report.attempt = 2;
  report.checkpointed = true;
  report.report.step = 3;
  report.report.metrics = {{"val_accuracy", 0.5}, {"val_loss", HUGE_VAL}};
  report.report.seconds = 1.5;
  report.report.checkpoint_seconds = 0.25;
  const TemporaryDirectory folder;
  const auto checkpoint = folder.path() / "c";
  write_sidecar(checkpoint, "study", std::vector{report});
  std::string hex;
  for (const char c : read_file(sidecar_path(checkpoint)).substr(14)) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  CHECK(hex == kStored);
  CHECK(read_sidecar(checkpoint, "study", 7).at(0).report.step == 3);
}

TEST_CASE("a damaged sidecar counts as missing") {
  const TemporaryDirectory folder;
  const auto checkpoint = folder.path() / "c";
  const std::vector<control::Report> reports{report_of(4, 2)};
  write_sidecar(checkpoint, "study", reports);
  const std::string whole = read_file(sidecar_path(checkpoint));
  for (size_t size = 0; size + 1 < whole.size(); ++size) {
    write_file_atomic(sidecar_path(checkpoint), whole.substr(0, size), false);
    CHECK(read_sidecar(checkpoint, "study", 4).empty());
  }
  // A length beyond the end of the file.
  std::string longer = whole;
  longer.replace(longer.find('\n') + 1, 8, "7fffffff");
  write_file_atomic(sidecar_path(checkpoint), longer, false);
  CHECK(read_sidecar(checkpoint, "study", 4).empty());
}

TEST_CASE("a line of name=number words is a report") {
  const auto line = parse_command_line(
      "step=3 val_accuracy=0.91, train_loss=+1e-3;\r", "val_accuracy");
  REQUIRE(line);
  CHECK(line->step == 3);
  CHECK(line->metrics == std::map<std::string, double>{{"val_accuracy", 0.91},
                                                       {"train_loss", 1e-3}});
  // A comma between digits is part of a number that cannot be read.
  const auto close = parse_command_line("val_accuracy=1,step=2,train_loss=1,5",
                                        "val_accuracy");
  REQUIRE(close);
  CHECK(close->step == 2);
  CHECK(close->metrics == std::map<std::string, double>{{"val_accuracy", 1}});
  const auto loose =
      parse_command_line("Epoch 2: val_accuracy=nan lr = 3", "val_accuracy");
  REQUIRE(loose);
  CHECK(!loose->step);
  CHECK(std::isnan(loose->metrics.at("val_accuracy")));
  CHECK(
      parse_command_line("val_loss=inf", "val_loss")->metrics.at("val_loss") ==
      HUGE_VAL);
}

TEST_CASE("other output is not a report") {
  for (const char* text :
       {"", "   ", "loading size=3 images", "step=1",
        "val_accuracy=", "val_accuracy=0.9x", "=3", "step=0 val_accuracy=1",
        "step=1.5 val_accuracy=1", "step=nan val_accuracy=1",
        "step=1e300 val_accuracy=1", "val_accuracy=0,91",
        "step=2 val_accuracy=1,234.5", "train_loss=0,5 step=2"}) {
    CAPTURE(text);
    CHECK(!parse_command_line(text, "val_accuracy"));
  }
}

TEST_CASE("a program can call its point invalid") {
  const auto line =
      parse_command_line("dtune: invalid: batch too large", "val_accuracy");
  REQUIRE(line);
  CHECK(line->invalid);
  CHECK(line->why == "batch too large");
}

TEST_CASE("lines come out whole however they came in") {
  LineBuffer lines;
  lines.add("a");
  CHECK(!lines.next());
  lines.add("b\nc\n\nd");
  CHECK(lines.next() == "ab");
  CHECK(lines.next() == "c");
  CHECK(lines.next() == "");
  CHECK(!lines.next());
  CHECK(lines.next(true) == "d");
  CHECK(!lines.next(true));
}

TEST_CASE("a line that never ends costs no memory") {
  LineBuffer lines;
  const std::string much(1 << 16, 'x');
  lines.add(much);
  CHECK(lines.next()->size() == much.size());
  for (int i = 0; i < 100; ++i) {
    lines.add(much);
    CHECK(!lines.next());
  }
  lines.add("tail\nnext\n");
  CHECK(lines.next() == "next");
}

namespace {

// Gangs of trials that train with so many ranks.
struct LocalGangs {
  explicit LocalGangs(int ranks) : gangs(recipe_of(ranks), options()) {}

  const SocketDirectory sockets;
  TrialGangs gangs;

 private:
  static Recipe recipe_of(int ranks) {
    Recipe recipe;
    recipe.parallel.mode = ParallelMode::data;
    recipe.parallel.ranks = ranks;
    return recipe;
  }
  TrialGangsOptions options() const {
    TrialGangsOptions options;
    options.listen.local = sockets.endpoint("gangs");
    return options;
  }
};

}  // namespace

// It is what lets a process take a place in the gang.
TEST_CASE("the name of a gang cannot be derived from its trial") {
  LocalGangs local(2);
  TrialGangs& gangs = local.gangs;
  Trial trial;
  trial.id = trial.attempt = 1;
  gangs.begin(trial, {"a", "b"});
  const std::string first = gangs.name(1);
  gangs.begin(trial, {"a", "b"});
  CHECK(first != gangs.name(1));
  CHECK(first.size() == std::string("1.1-").size() + 32);
}

// Else it is said that the others go on, and then that they cannot.
TEST_CASE("a gang that is closed goes on without no rank") {
  LocalGangs local(3);
  TrialGangs& gangs = local.gangs;
  Trial trial;
  trial.id = trial.attempt = 1;
  trial.state = TrialState::running;
  gangs.begin(trial, {"a", "b", "c"});
  control::Ended killed;
  killed.outcome = control::Outcome::failed;
  killed.reason = Reason::killed;
  const std::vector<LeasedSlot> rest = {{0, 0}, {1, 1}};
  CHECK(gangs.goes_on_without(trial, rest, 2, killed));
  CHECK(gangs.member_left(trial, {0, 0}, killed));
  CHECK(gangs.member_left(trial, {1, 1}, killed));
  CHECK_FALSE(gangs.goes_on_without(trial, rest, 2, killed));
  CHECK(gangs.member_left(trial, {2, 2}, killed));  // which closes it
  CHECK_FALSE(gangs.goes_on_without(trial, rest, 2, killed));
}

TEST_CASE("new work waits where much is recorded that is not stored yet") {
  const TemporaryDirectory folder;
  const auto store =
      open_sqlite_store(folder.path() / "s.db", StoreMode::create_or_open);
  Study study;
  study.id = "behind";
  study.trials.resize(1);
  study.trials[0].id = 1;
  ProgressSink silent;
  Records records(study, *store, silent, system_clock());
  records.save_study();
  const auto start_often = [&] {
    for (int i = 0; i < 1000; ++i) {
      records.change(study.trials[0], TrialState::running, Reason::none, "");
    }
  };
  CHECK(!records.behind());
  {
    const Records::Together together(records);  // is stored at its end
    start_often();
    CHECK(records.behind());
  }
  REQUIRE(records.flush());
  CHECK(!records.behind());
}

TEST_CASE("a step on more images is expected to take longer") {
  Study study;
  study.trials.resize(2);
  study.trials[0].id = 1;
  study.trials[1].id = 2;
  for (int step = 1; step <= 3; ++step) {
    StepReport report;
    report.step = step;
    report.seconds = std::exp2(step);
    study.trials[0].curve.push_back(report);
  }
  study.reports = 3;
  study.horizon = 4;
  CHECK(BackupCopies(study, system_clock()).expected_step(study.trials[0]) ==
        4);
  study.recipe.fidelity = {FidelityKind::data_limit, 4};
  const BackupCopies copies(study, system_clock());
  CHECK(copies.expected_step(study.trials[0]) == 16);
  CHECK(copies.expected_step(study.trials[1]) == 2);
  study.trials[1].kind = TrialKind::final;
  study.trials[1].target_step = 1;  // on all images
  CHECK(copies.expected_step(study.trials[1]) == 16);
}
