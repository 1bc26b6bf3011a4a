// Agents over ssh. The ssh of these tests is a script in front of PATH that
// runs the command here: real processes, real pipes.
#include "dtune/cluster/ssh_launcher.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <thread>

#include "cluster/local_study.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/text.h"

using namespace dtune;  // NOLINT: a test
namespace fs = std::filesystem;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kVersion = "dtune 0.0.9";

constexpr const char* kSsh = R"sh(
printf '%s\n' "$@" > $DIR/ssh-args
for last; do :; done
case "$(cat $DIR/mode)" in
  ok) sh -c "$last"; exit $? ;;
  unknown)
    echo "ssh: Could not resolve hostname gpu1: Name or service not known" >&2
    exit 255 ;;
  denied)
    echo "Warning: Permanently added 'gpu1' to the list of known hosts." >&2
    echo "me@gpu1: Permission denied (publickey,password)." >&2
    exit 255 ;;
  refused)
    echo "ssh: connect to host gpu1 port 22: Connection refused" >&2
    exit 255 ;;
  missing) PATH=/nowhere; exec /bin/sh -c "$last" ;;
esac
)sh";

constexpr const char* kDtune = R"sh(
if [ "$1" = --version ]; then
  cat $DIR/version
  exit
fi
env > $DIR/environment
printf '%s\n' "$@" > $DIR/agent-args
read -r token
echo "$token" > $DIR/token
echo started >> $DIR/starts
echo "agent: ready"
exec /bin/sh $DIR/agent
)sh";

// Folders with a program `ssh` here and a program `dtune` "there".
class SshNetwork {
 public:
  SshNetwork() : path_before_(std::getenv("PATH")) {
    script("ssh", kSsh);
    script("dtune", kDtune);
    // What an agent does with its stdin.
    set("agent", "cat > /dev/null; echo ended > " + file("ended"));
    set("version", std::string(kVersion) + "\n");
    set("mode", "ok");
    const std::string path = folder_.path().string() + ":" + path_before_;
    setenv("PATH", path.c_str(), 1);
  }
  ~SshNetwork() { setenv("PATH", path_before_.c_str(), 1); }

  void set(const std::string& name, const std::string& text) {
    write_file_atomic(file(name), text, false);
  }
  std::string get(const std::string& name) const {
    return fs::exists(file(name)) ? read_file(file(name)) : "";
  }
  std::string file(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  void script(const std::string& name, const std::string& body) {
    const std::string dir = "DIR='" + folder_.path().string() + "'\n";
    set(name, "#!/bin/sh\n" + dir + body + "\n");
    fs::permissions(file(name), fs::perms::owner_all);
  }

 private:
  TemporaryDirectory folder_;
  std::string path_before_;
};

SshLauncherOptions options_for(const std::string& address) {
  SshLauncherOptions options;
  options.address = parse_ssh_address(address);
  options.node = options.address.host;
  options.version = kVersion;
  options.argv = {"agent", "--node", "it's $HOME"};
  options.make_token = [] { return std::string("the-token"); };
  return options;
}

// Lets the agent be looked after until `done`.
bool until(SshLauncher& agent, const std::function<bool()>& done) {
  return eventually([&] {
    agent.ensure();
    return done();
  });
}

std::string why_given_up(SshNetwork& network, const std::string& mode) {
  network.set("mode", mode);
  SshLauncher agent(options_for("ssh://me@gpu1"));
  CHECK(until(agent, [&] { return agent.given_up(); }));
  const auto notices = agent.take_notices();
  REQUIRE(notices.size() == 1);
  CHECK(notices.front() == agent.problem());
  return agent.problem();
}

}  // namespace

TEST_CASE("words survive the shell at the other end") {
  CHECK(shell_word("tcp://10.0.0.1:5555") == "tcp://10.0.0.1:5555");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("").size() == 2);
}

TEST_CASE(
    "an agent is started, gets its token by stdin alone, and ends with it") {
  SshNetwork network;
  std::string log;
  {
    SshLauncherOptions options = options_for("ssh://me@gpu1:2222");
    options.log = [&](const std::string& line) { log += line + "\n"; };
    SshLauncher agent(options);
    CHECK(until(agent,
                [&] { return log.find("agent: ready") != std::string::npos; }));
    CHECK(network.get("token") == "the-token\n");
    CHECK(network.get("agent-args") ==
          "agent\n--node\nit's $HOME\n--token-stdin\n");
    const std::string words = network.get("ssh-args");
    CHECK(words.find("-oBatchMode=yes\n") != std::string::npos);
    CHECK(words.find("-p2222\n-lme\n--\ngpu1\n") != std::string::npos);
    for (const char* where : {"ssh-args", "agent-args", "environment"}) {
      CHECK(network.get(where).find("the-token") == std::string::npos);
    }
    CHECK_FALSE(agent.given_up());
  }
  CHECK(network.get("ended") == "ended\n");
}

TEST_CASE("each way in which ssh fails is said with the node and a remedy") {
  SshNetwork network;
  std::string why = why_given_up(network, "unknown");
  CHECK(why.find("node gpu1: ") == 0);
  CHECK(why.find("Could not resolve hostname") != std::string::npos);
  CHECK(why.find("check the host's name") != std::string::npos);
  why = why_given_up(network, "denied");
  CHECK(why.find("Permission denied (publickey") != std::string::npos);
  CHECK(why.find("ssh-copy-id") != std::string::npos);
  why = why_given_up(network, "missing");
  CHECK(why.find("not found") != std::string::npos);
  CHECK(why.find("install dtune there") != std::string::npos);
  network.set("version", "dtune 7.1\n");
  why = why_given_up(network, "ok");
  CHECK(why.find("has dtune 7.1, this is dtune 0.0.9") != std::string::npos);
  CHECK(network.get("token").empty());  // another version gets no token
}

TEST_CASE("a machine without ssh gets the name of the package") {
  SshNetwork network;
  fs::remove(network.file("ssh"));
  const std::string before = std::getenv("PATH");
  setenv("PATH", network.file("").c_str(), 1);
  SshLauncher agent(options_for("ssh://gpu1"));
  agent.ensure();
  setenv("PATH", before.c_str(), 1);
  CHECK(agent.given_up());
  CHECK(agent.problem().find("openssh-client") != std::string::npos);
}

TEST_CASE("a node that cannot be reached now is tried again until it is") {
  SshNetwork network;
  network.set("mode", "refused");
  SshLauncher agent(options_for("ssh://gpu1"));
  CHECK(until(agent, [&] { return !agent.problem().empty(); }));
  CHECK(agent.problem().find("Connection refused") != std::string::npos);
  CHECK_FALSE(agent.given_up());
  network.set("mode", "ok");
  CHECK(until(agent, [&] { return !network.get("token").empty(); }));
  const auto notices = agent.take_notices();
  REQUIRE(notices.size() == 2);
  CHECK(notices[1] == "node gpu1: is there now");
}

TEST_CASE("an agent that dies is started again") {
  SshNetwork network;
  network.set("agent", "echo out of luck; exit 75");
  SshLauncher agent(options_for("ssh://gpu1"));
  CHECK(until(agent, [&] { return !agent.problem().empty(); }));
  CHECK(agent.problem().find("exit code 75: out of luck") != std::string::npos);
  CHECK(until(agent, [&] {
    return network.get("starts").find("started\nstarted") != std::string::npos;
  }));
  CHECK_FALSE(agent.given_up());
}

TEST_CASE("an agent that refuses to start is not started again") {
  SshNetwork network;
  network.set("agent", "echo 'dtune: no such device'; exit 2");
  SshLauncher agent(options_for("ssh://gpu1"));
  CHECK(until(agent, [&] { return agent.given_up(); }));
  CHECK(agent.problem().find("no such device") != std::string::npos);
}

TEST_CASE("nothing is left at the other end when the launcher is killed") {
  SshNetwork network;
  const pid_t pid = fork();
  if (pid == 0) {
    SshLauncher agent(options_for("ssh://gpu1"));
    while (true) {
      agent.ensure();
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  const auto wait_for = [&](const std::string& name) {
    return eventually([&] { return !network.get(name).empty(); });
  };
  CHECK(wait_for("starts"));
  // Only its stdin tells the agent: ssh passes no signals on.
  network.set("ended", "");
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  CHECK(wait_for("ended"));
}

TEST_CASE("a study runs on an agent that was started over ssh") {
  SshNetwork network;
  const std::string id = toy::unique("over-ssh");
  TemporaryDirectory folder;
  Recipe recipe = toy::recipe(3);
  recipe.final_training.enabled = false;
  toy::LocalStudy local(folder.path(), id, 2, recipe, {toy::point(0.5)});
  network.set("agent", "exec " DTUNE_FAKE_WORKER " agent " +
                           local.options.endpoint + " " + id + " 2");
  SshLauncher agent(options_for("ssh://gpu1"));
  local.options.ensure_local_agent = [&] { agent.ensure(); };
  CHECK(local.run().state == StudyState::finished);
  CHECK(local.study.trials.size() == 3);
  agent.close();
  CHECK(toy::leftovers(id).empty());
}
