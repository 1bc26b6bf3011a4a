#include "dtune/cluster/command_runner.h"

#include <array>
#include <chrono>
#include <functional>
#include <thread>

#include "cluster/toy.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/worker.h"

using namespace dtune;  // NOLINT: a test

namespace {

const std::atomic<bool> kGoOn{false};

TrialAssignment command(const std::string& script, int horizon = 3) {
  TrialAssignment out;
  out.study_id = toy::unique("command-test");
  out.trial = 7;
  out.attempt = 1;
  out.point = toy::point(0.25);
  out.seed = 99;
  out.horizon = horizon;
  out.recipe = toy::recipe(1);
  out.recipe.command = CommandSpec{};
  out.recipe.command->argv = {"sh", "-c", script, "sh", "--lr={lr}"};
  return out;
}

std::unique_ptr<TrialSession> start(const TrialAssignment& assignment) {
  return make_command_runner()->start(assignment);
}

Reason failure_of(TrialSession& session) {
  try {
    session.run_step(kGoOn);
  } catch (const TrialFailure& e) {
    return e.reason();
  }
  return Reason::none;
}

std::string words_of(const TrialAssignment& assignment) {
  try {
    start(assignment)->run_step(kGoOn);
  } catch (const TrialFailure& e) {
    return e.what();
  }
  return "";
}

// What this process writes to stderr is read slowly, as by a busy agent.
class SlowLog {
 public:
  SlowLog() : saved_(dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    reader_ = std::thread([end = ends[0]] {
      std::array<char, 1 << 16> text;
      while (read(end, text.data(), text.size()) > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      close(end);
    });
  }
  ~SlowLog() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    reader_.join();
  }
  SlowLog(const SlowLog&) = delete;
  SlowLog& operator=(const SlowLog&) = delete;

 private:
  int saved_;
  std::thread reader_;
};

size_t processes() {
  return find_marked(
             {"DTUNE_STUDY=" + toy::unique("command-test"), "DTUNE_TRIAL=7"})
      .size();
}

// Asks for a stop once the step is on its way.
void check_stopped(TrialSession& session) {
  std::atomic<bool> stop{false};
  std::thread asks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stop = true;
  });
  CHECK_THROWS_AS(session.run_step(stop), StepStopped);
  asks.join();
}

}  // namespace

TEST_CASE("a program gets its point and reports step by step") {
  auto session = start(command(
      "echo hello; echo step=1 train_loss=2; echo step=1 val_accuracy=0.5; "
      "echo val_accuracy=$DTUNE_PARAM_LR seed=$DTUNE_SEED; "
      "echo $1 trial=$DTUNE_TRIAL val_accuracy=1; exec sleep 1000"));
  StepReport report = session->run_step(kGoOn);
  CHECK(report.step == 1);
  CHECK(report.metrics.at("train_loss") == 2);
  report = session->run_step(kGoOn);
  CHECK(report.step == 2);
  CHECK(report.metrics.at("val_accuracy") == 0.25);
  CHECK(report.metrics.at("seed") == 99);
  report = session->run_step(kGoOn);
  CHECK(report.metrics.at("--lr") == 0.25);
  CHECK(report.metrics.at("trial") == 7);
  CHECK(session->steps_done() == 3);
}

TEST_CASE("a program in Python does not keep its reports until it ends") {
  const std::string script = "echo val_accuracy=0 own=$PYTHONUNBUFFERED";
  CHECK(start(command(script))->run_step(kGoOn).metrics.at("own") == 1);
  TrialAssignment chosen = command(script);
  chosen.recipe.command->environment["PYTHONUNBUFFERED"] = "7";
  CHECK(start(chosen)->run_step(kGoOn).metrics.at("own") == 7);
}

TEST_CASE("a program has the threads of its slot unless it is told others") {
  ::unsetenv("OMP_NUM_THREADS");
  TrialAssignment assignment =
      command("echo val_accuracy=0 threads=$OMP_NUM_THREADS");
  assignment.threads = 3;
  CHECK(start(assignment)->run_step(kGoOn).metrics.at("threads") == 3);
  assignment.recipe.command->environment["OMP_NUM_THREADS"] = "8";
  CHECK(start(assignment)->run_step(kGoOn).metrics.at("threads") == 8);
}

TEST_CASE("a program that writes faster than it is read stops when asked to") {
  const SlowLog log;
  auto session = start(command("exec yes"));
  check_stopped(*session);
}

TEST_CASE("a program that ends early says so after its last step") {
  auto session = start(command("echo val_accuracy=0.5", kOpenHorizon));
  StepReport report = session->run_step(kGoOn);
  if (!report.last) report = session->run_step(kGoOn);
  CHECK(report.last);
  CHECK(report.step == 1);
  CHECK(report.metrics.at("val_accuracy") == 0.5);
}

TEST_CASE("a program's failures are distinguished") {
  auto failing = start(command("echo oops >&2; exit 3"));
  try {
    failing->run_step(kGoOn);
    FAIL("no failure");
  } catch (const CommandExit& e) {
    CHECK(e.reason() == Reason::bad_output);
    CHECK(e.exit_code() == 3);
    CHECK(std::string(e.what()) ==
          "the program ended with exit code 3; it last wrote: oops");
  }
  CHECK(failure_of(*start(command("exit 42"))) == Reason::said_invalid);
  CHECK(failure_of(*start(command("echo 'dtune: invalid: no'; sleep 9"))) ==
        Reason::said_invalid);
  CHECK(failure_of(*start(command("kill -SEGV $$"))) == Reason::crashed);
  CHECK(failure_of(*start(command("echo done"))) == Reason::bad_output);
  CHECK(failure_of(*start(command("echo step=2 val_accuracy=1"))) ==
        Reason::bad_output);
}

TEST_CASE("a program that reports other metrics is told which") {
  CHECK(words_of(command("echo step=1 val_loss=2 acc=1")) ==
        "the program ended without a line like 'step=1 val_accuracy=0.5' on "
        "its standard output; it reported acc, val_loss, but not val_accuracy");
  CHECK(words_of(command("echo step=1 val_loss=2; echo step=2 val_loss=1")) ==
        "step 1 was reported with val_loss, but not val_accuracy (the "
        "objective's metric)");
  CHECK(words_of(command("echo step=1 val_accuracy=1 >&2")) ==
        "the program ended without a line like 'step=1 val_accuracy=0.5' on "
        "its standard output; it last wrote: step=1 val_accuracy=1");
}

TEST_CASE("a program that does not exist fails its trial, by name") {
  TrialAssignment assignment = command("");
  assignment.recipe.command->argv = {"/nonexistent/trainer"};
  CHECK_THROWS_WITH_AS(start(assignment),
                       "/nonexistent/trainer: cannot be run: No such file or "
                       "directory (is it installed and executable?)",
                       CommandExit);
}

TEST_CASE("a stopped step is resumed where it was") {
  const TemporaryDirectory folder;
  const std::string go = (folder.path() / "go").string();
  auto session = start(command("while ! [ -e " + go +
                               " ]; do sleep 0.01; done; "
                               "echo val_accuracy=0.5; exec sleep 1000"));
  check_stopped(*session);
  write_file_atomic(go, "", false);
  CHECK(session->run_step(kGoOn).step == 1);
}

TEST_CASE("what a program forks between two steps goes on as well") {
  constexpr int kSteps = 400;
  auto session = start(command(
      "for i in $(seq 400); do echo val_accuracy=0.5; x=$(echo $i); done",
      kSteps));
  std::atomic<bool> stop{false};
  std::atomic<int> done{0};
  std::thread ends_a_hang([&] {
    for (int i = 0; i < 600 && done < kSteps && !stop; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    stop = true;
  });
  try {
    while (done < kSteps) done = session->run_step(stop).step;
  } catch (const StepStopped&) {
  }
  stop = true;
  ends_a_hang.join();
  CHECK(done == kSteps);
}

TEST_CASE("a program starts from what it checkpointed, and may repeat itself") {
  TrialAssignment assignment = command(
      "echo step=1 val_accuracy=0.1; echo step=2 val_accuracy=0.2; "
      "echo step=3 val_accuracy=0.$DTUNE_STEP");
  assignment.resume_step = 2;
  auto session = start(assignment);
  CHECK(session->steps_done() == 2);
  const StepReport report = session->run_step(kGoOn);
  CHECK(report.step == 3);
  CHECK(report.metrics.at("val_accuracy") == 0.2);
}

TEST_CASE("a program whose checkpoint is ahead of the record begins again") {
  const TemporaryDirectory folder;
  // Counts on from the step in its checkpoint, as after a kill between saving
  // and printing.
  TrialAssignment assignment = command(
      "s=0; [ -e $DTUNE_CHECKPOINT ] && s=$(cat $DTUNE_CHECKPOINT); "
      "while [ $s -lt 6 ]; do s=$((s + 1)); echo $s > $DTUNE_CHECKPOINT; "
      "echo step=$s val_accuracy=0.$s; done",
      6);
  assignment.checkpoint = folder.path() / "checkpoint";
  assignment.resume_step = 2;
  SUBCASE("a step is left out") {
    write_file_atomic(assignment.checkpoint, "4\n", false);
  }
  SUBCASE("all was done") {
    write_file_atomic(assignment.checkpoint, "6\n", false);
  }
  auto session = start(assignment);
  for (int step = 3; step <= 6; ++step) {
    const StepReport report = session->run_step(kGoOn);
    CHECK(report.step == step);
    CHECK(report.metrics.at("val_accuracy") == doctest::Approx(0.1 * step));
  }
}

TEST_CASE("a program that leaves steps out by itself fails") {
  const TemporaryDirectory folder;
  TrialAssignment assignment =
      command("echo step=1 val_accuracy=1; echo step=3 val_accuracy=1");
  assignment.checkpoint = folder.path() / "checkpoint";
  auto session = start(assignment);
  session->run_step(kGoOn);
  CHECK(failure_of(*session) == Reason::bad_output);
}

TEST_CASE("ending a session ends all that its program has started") {
  {
    auto session = start(command(
        "sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & "
        "echo val_accuracy=1; wait"));
    session->run_step(kGoOn);
    CHECK(eventually([] { return processes() >= 3; }));
  }
  CHECK(eventually([] { return processes() == 0; }));
}

TEST_CASE("a program that writes without end is heard and stays small") {
  auto session =
      start(command("yes | head -c 3000000; echo; "
                    "head -c 3000000 /dev/zero; echo; "
                    "echo val_accuracy=1; exec sleep 1000"));
  CHECK(session->run_step(kGoOn).step == 1);
}
