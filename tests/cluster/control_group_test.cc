#include "dtune/cluster/control_group.h"

#include <string>

#include "eventually.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/cluster/child_process.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kWhySkipped =
    "cgroup v2 is not writable here (root, or a unit with Delegate=yes)";

// A shell in the group that starts what has another session and parent and no
// environment, which then prints its process id.
Child start_hidden(const ControlGroup& group) {
  SpawnOptions options;
  options.argv = {"sh", "-c",
                  "(env -i /bin/sh -c 'setsid sh -c \"echo \\$\\$; exec "
                  "sleep 600 >/dev/null 2>&1\" &'); exec sleep 600"};
  options.control_group = group.folder().string();
  return Child(options);
}

pid_t read_pid(Child& child) {
  std::string text;
  REQUIRE(eventually([&] {
    child.read_out(text);
    return text.ends_with('\n');
  }));
  return std::stoi(text);
}

bool lives(pid_t pid) { return resident_bytes(pid) > 0; }

}  // namespace

TEST_CASE("a control group ends what hides from session, parent and marks") {
  const ControlGroup group("slot0");
  if (group.folder().empty()) return skip(kWhySkipped);
  Child child = start_hidden(group);
  const pid_t hidden = read_pid(child);
  CHECK(lives(hidden));
  child.signal_group(SIGKILL);
  REQUIRE(child.wait(std::chrono::seconds(90)));
  CHECK(lives(hidden));  // not of its process group
  group.end();
  CHECK(eventually([&] { return !lives(hidden); }));
}

TEST_CASE("groups that a killed process has left are ended by others") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const ControlGroup group("slot0");
    std::string line = group.folder().string() + "\n";
    if (!group.folder().empty()) {
      Child child = start_hidden(group);
      std::string text;
      while (!text.ends_with('\n')) child.read_out(text);
      line += text;
    }
    (void)!write(ends[1], line.data(), line.size());
    kill(getpid(), SIGKILL);
  }
  close(ends[1]);
  std::string said;
  char c = 0;
  while (read(ends[0], &c, 1) == 1) said += c;
  close(ends[0]);
  waitpid(owner, nullptr, 0);
  const std::filesystem::path folder = said.substr(0, said.find('\n'));
  if (folder.empty()) return skip(kWhySkipped);
  const pid_t hidden = std::stoi(said.substr(said.find('\n') + 1));
  CHECK(lives(hidden));
  end_groups_of("1:2");  // another's
  CHECK(lives(hidden));
  end_abandoned_groups();
  CHECK(eventually([&] { return !lives(hidden); }));
  CHECK_FALSE(std::filesystem::exists(folder));
}
