#include "dtune/cluster/local_launcher.h"

#include <algorithm>
#include <csignal>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// An agent that writes its process's number to a file and does as `script`.
struct Agent {
  TemporaryDirectory folder;
  ManualClock clock;
  BoundedLog log{path("log")};
  LocalLauncher launcher;

  explicit Agent(const std::string& script)
      : launcher(
            {.argv = {"sh", "-c", "echo $$ > " + path("pid") + "; " + script},
             .study_id = "study",
             .log = &log},
            clock) {}

  std::string path(const std::string& name) const {
    return (folder.path() / name).string();
  }
  bool started() const { return std::filesystem::exists(path("pid")); }
  void turn() {  // in real time; the launcher's stands still
    launcher.ensure();
    std::this_thread::sleep_for(milliseconds(1));
  }
  pid_t await_start() {
    while (!started() || read_file(path("pid")).empty()) turn();
    const pid_t pid = std::stoi(read_file(path("pid")));
    std::filesystem::remove(path("pid"));
    return pid;
  }
  // Until the launcher knows that it has ended: it is a zombie before.
  void await_end(pid_t pid) {
    while (kill(pid, 0) == 0) turn();
  }
  bool starts_after(Duration pause) {
    clock.advance(pause - milliseconds(1));
    launcher.ensure();
    if (started()) return false;
    clock.advance(milliseconds(1));
    return true;
  }
};

}  // namespace

TEST_CASE("an agent that ends at once is started thrice, with growing pauses") {
  Agent agent("echo $DTUNE_STUDY: no luck; exit 3");
  agent.await_end(agent.await_start());
  CHECK(agent.starts_after(seconds(1)));
  agent.await_end(agent.await_start());
  CHECK(agent.starts_after(seconds(2)));
  CHECK_FALSE(agent.launcher.given_up());
  const std::string problem =
      "the agent of this machine ended 3 times in a row, the last time with "
      "exit code 3: study: no luck\n (see " +
      agent.path("log") + ")";
  CHECK_THROWS_WITH_AS(agent.await_end(agent.await_start()), problem.c_str(),
                       Error);
  CHECK(agent.launcher.given_up());
  CHECK(read_file(agent.path("log")) ==
        "study: no luck\nstudy: no luck\nstudy: no luck\n");
}

TEST_CASE("a long line of an agent loses nothing") {
  Agent agent(
      "head -c 25000 /dev/zero | tr '\\0' x; echo; echo done; sleep 60");
  const auto log = [&] { return read_file(agent.path("log")); };
  while (log().find("done") == std::string::npos) agent.turn();
  const std::string text = log();
  CHECK(std::count(text.begin(), text.end(), 'x') == 25'000);
}

TEST_CASE("an agent that is killed again and again is started again") {
  Agent agent("exec sleep 1000");
  for (int i = 0; i < 5; ++i) {
    const pid_t pid = agent.await_start();
    kill(pid, SIGKILL);
    agent.await_end(pid);
    agent.clock.advance(seconds(60));
  }
  CHECK_FALSE(agent.launcher.given_up());
}

TEST_CASE("an agent that ends after a while is started again at once") {
  Agent agent("exec sleep 1000");
  for (int i = 0; i < 5; ++i) {
    const pid_t pid = agent.await_start();
    agent.clock.advance(seconds(20));
    kill(pid, SIGKILL);
    agent.await_end(pid);
  }
  CHECK_FALSE(agent.launcher.given_up());
  CHECK(agent.launcher.take_notices().empty());
}
