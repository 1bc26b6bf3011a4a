#include "dtune/cluster/child_process.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/toy.h"
#include "eventually.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr Duration kChildPatience = std::chrono::seconds(90);

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.argv = {"sh", "-c", script};
  return options;
}

std::string output_of(Child& child) {
  std::string text;
  child.wait(kChildPatience);
  child.read_out(text);
  return text;
}

bool gone_within_patience(const std::string& mark) {
  return eventually([&] { return find_marked({mark}).empty(); });
}

}  // namespace

TEST_CASE("a child's output, exit code and signal are known") {
  Child child(shell("echo out; echo err >&2; exit 3"));
  CHECK(output_of(child) == "out\n");
  std::string err;
  child.read_err(err);
  CHECK(err == "err\n");
  CHECK(child.status()->exit_code == 3);
  Child killed(shell("kill -SEGV $$"));
  REQUIRE(killed.wait(kChildPatience));
  CHECK(killed.status()->signal == SIGSEGV);
  CHECK(describe(*killed.status()) == "signal 11 (Segmentation fault)");
}

TEST_CASE("a program that cannot be run is named") {
  SpawnOptions options;
  options.argv = {"/nonexistent/trainer"};
  CHECK_THROWS_WITH_AS(Child{options},
                       "/nonexistent/trainer: cannot be run: No such file or "
                       "directory (is it installed and executable?)",
                       Error);
}

TEST_CASE("a script whose interpreter is not there is told from none") {
  const TemporaryDirectory folder;
  const auto script = folder.path() / "train.sh";
  write_file_atomic(script, "#!/bin/sh\r\nexit 0\r\n", false);
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  SpawnOptions options;
  options.argv = {"./train.sh"};
  options.directory = folder.path();
  CHECK_THROWS_WITH_AS(
      Child{options},
      "./train.sh: cannot be run: No such file or directory (it is there, but "
      "not the interpreter that its first line names; Windows line ends are "
      "one cause)",
      Error);
}

TEST_CASE("a child starts with default signals, no input and its own group") {
  std::signal(SIGTERM, SIG_IGN);
  Child child(
      shell("cat; cut -d' ' -f5 /proc/$$/stat; echo $$; "  // its group
            "grep SigIgn /proc/self/status"));
  const std::string text = output_of(child);
  std::signal(SIGTERM, SIG_DFL);
  const std::string pid = std::to_string(child.pid());
  CAPTURE(text);
  CHECK(text.find(pid + "\n" + pid + "\n") == 0);
  CHECK(text.find("SigIgn:\t0000000000000000") != std::string::npos);
}

TEST_CASE("destroying a child ends its whole group") {
  {
    SpawnOptions options = shell("sleep 1000 & sleep 1000");
    options.environment["DTUNE_TEST"] = toy::unique("group");
    const Child child(options);
  }
  CHECK(gone_within_patience("DTUNE_TEST=" + toy::unique("group")));
}

TEST_CASE("a child dies with the thread that made it, however that ends") {
  SpawnOptions inner = shell("exec sleep 1000");
  inner.environment["DTUNE_TEST"] = toy::unique("death");
  std::unique_ptr<Child> child;
  std::thread([&] { child = std::make_unique<Child>(inner); }).join();
  REQUIRE(child->wait(kChildPatience));  // ended by the kernel
  CHECK(child->status()->signal == SIGKILL);
  CHECK(gone_within_patience("DTUNE_TEST=" + toy::unique("death")));
}

TEST_CASE("processes that leave group and session are found by their mark") {
  SpawnOptions options = shell("setsid sh -c 'sleep 1000 & sleep 1000' & wait");
  options.environment["DTUNE_TEST"] = toy::unique("marked");
  {
    const Child child(options);
    CHECK(eventually([&] {
      return find_marked({"DTUNE_TEST=" + toy::unique("marked")}).size() >= 3;
    }));
  }
  CHECK(kill_marked({"DTUNE_TEST=" + toy::unique("marked"),
                     "PATH=" + std::string(getenv("PATH"))}) >= 2);
  CHECK(gone_within_patience("DTUNE_TEST=" + toy::unique("marked")));
}

// Their environments cannot be read: looking again and again would take a
// second for a hundred of them.
TEST_CASE("processes of other users are not waited for") {
  if (geteuid() != 0) return skip("processes of another user need root");
  constexpr int kOthers = 20;
  std::vector<std::unique_ptr<Child>> others;
  for (int i = 0; i < kOthers; ++i) {
    others.push_back(std::make_unique<Child>(shell("exec sleep 1000")));
  }
  const pid_t pid = fork();
  if (pid == 0) {
    constexpr uid_t kNobody = 65534;
    if (setuid(kNobody) != 0) _exit(2);
    find_marked({"DTUNE_TEST=none"});
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    _exit(usage.ru_nvcsw < kOthers * 25 ? 0 : 1);  // each pause is a switch
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a process that ends while it is looked at has no size") {
  bool threw = false;
  for (int i = 0; i < 500; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    const std::jthread reaper([pid] { waitpid(pid, nullptr, 0); });
    try {
      while (kill(pid, 0) == 0) resident_bytes(pid);
    } catch (const std::exception&) {
      threw = true;
    }
  }
  CHECK_FALSE(threw);
}

TEST_CASE("a subreaper ends what its dead children have left behind") {
  become_subreaper();
  SpawnOptions options =
      shell("setsid sh -c 'sleep 1000 & sleep 1000' & echo; sleep 1000");
  options.environment["DTUNE_TEST"] = toy::unique("adopted");
  const std::string mark = "DTUNE_TEST=" + toy::unique("adopted");
  {
    const Child child(options);
    CHECK(eventually([&] { return find_marked({mark}).size() >= 5; }));
  }
  CHECK(kill_adopted({mark, "DTUNE_TEST2=x"}) == 0);
  CHECK(kill_adopted({mark}) >= 2);
  CHECK(gone_within_patience(mark));
}

TEST_CASE("orphans are those whose agent is no more") {
  SpawnOptions options = shell("exec sleep 1000");
  options.environment["DTUNE_STUDY"] = toy::unique("orphan-test");
  options.environment["DTUNE_AGENT"] = process_name(getpid());
  Child kept(options);
  options.environment["DTUNE_AGENT"] = process_name(getpid()) + "0";
  Child orphan(options);
  CHECK(kill_orphans(toy::unique("orphan-test")) >= 1);
  CHECK(orphan.wait(kChildPatience)->signal == SIGKILL);
  CHECK(!kept.status());
}

TEST_CASE("what looks like an orphan in another PID namespace is left alone") {
  if (geteuid() != 0) return skip("making PID namespaces needs root");
  const std::string mark = "DTUNE_STUDY=" + toy::unique("container-test");
  SpawnOptions options;
  // There, process 1 is the agent; here, it is another one.
  options.argv = {"unshare", "--pid",           "--fork", "--kill-child", "env",
                  mark,      "DTUNE_AGENT=1:1", "sleep",  "1000"};
  Child container(options);
  REQUIRE(eventually([&] { return find_marked({mark}).size() == 1; }));
  CHECK(kill_orphans(toy::unique("container-test")) == 0);
  CHECK(find_marked({mark}).size() == 1);
}

TEST_CASE("a process whose state cannot be read does not count as ended") {
  Child child(shell("exec sleep 1000"));
  const std::string name = process_name(child.pid());
  CHECK_FALSE(has_ended(name));
  CHECK(has_ended(name + "0"));  // its number, used again
  CHECK(has_ended("nonsense"));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool seems_ended = has_ended(name);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK_FALSE(seems_ended);
  child.signal_group(SIGKILL);
  child.wait(kChildPatience);
  CHECK(has_ended(name));
}

TEST_CASE("a memory cap makes allocation fail, not the machine") {
  SpawnOptions options = shell(
      "head -c 100000000 /dev/zero | tail -c 99999999"
      " | wc -c");
  Child free(options);
  CHECK(output_of(free) == "99999999\n");
  options.data_bytes = 50 << 20;
  Child capped(options);
  CHECK(output_of(capped) == "0\n");
  std::string errors;
  capped.read_err(errors);
  CHECK(errors.find("memory exhausted") != std::string::npos);
}
