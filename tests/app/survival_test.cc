// What must not end, poison or mix up a study: processes that are killed,
// databases that came from anywhere, links, unknown clients at the port.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "app/history.h"
#include "app/preload.h"
#include "app/program.h"
#include "app/program_json.h"
#include "eventually.h"
#include "skip.h"
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/store/sqlite_database.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// Each step is saved, so that a paused trial goes on from there; a descendant
// leaves session and process group. On hold no trial goes on after step 2.
std::string saving_recipe(const std::string& more) {
  return "study: saving\n"
         "command:\n"
         "  run: [sh, script.sh]\n"
         "  steps: 6\n"
         "space: { x: { log: [0.01, 1] } }\n"
         "objective: val_accuracy\n"
         "slots: 2\n" +
         more;
}

constexpr const char* kSaving =
    "setsid sh -c 'while :; do sleep 1; done' &\n"
    "s=0; [ -e $DTUNE_CHECKPOINT ] && s=$(cat $DTUNE_CHECKPOINT)\n"
    "while [ $s -lt 6 ]; do\n"
    "  sleep 0.05; s=$((s + 1))\n"
    "  echo $s > $DTUNE_CHECKPOINT.new\n"
    "  mv $DTUNE_CHECKPOINT.new $DTUNE_CHECKPOINT\n"
    "  echo step=$s val_accuracy=0.$s\n"
    "  while [ $s -ge 2 -a -e hold ]; do sleep 0.02; done\n"
    "done\n";

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::string proc_text(pid_t pid, const char* name) {
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string command_line(pid_t pid) {
  std::string words = proc_text(pid, "cmdline");
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

// The processes of dtune itself in this place, programs apart, but its guards.
void kill_dtune(const Workplace& place, const RunningProgram& program) {
  std::vector<pid_t> found;
  for (const std::string& line : place.orphans(/*patience_ms=*/0)) {
    const pid_t pid = std::stoi(line);
    const std::string words = command_line(pid);
    if (contains(words, " agent ") || contains(words, " worker ")) {
      found.push_back(pid);
    }
  }
  CHECK(found.size() >= 2);
  program.send(SIGKILL);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
}

void make_keys(Workplace& place) {
  place.environment["XDG_CONFIG_HOME"] = (place / "config").string();
  REQUIRE(place.run({"keygen"}).code == 0);
}

// Connections that say nothing.
class IdleConnections {
 public:
  IdleConnections(int port, int count) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; ++i) {
      const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      (void)!::connect(one, reinterpret_cast<const sockaddr*>(&address),
                       sizeof address);
      sockets_.push_back(one);
    }
  }
  ~IdleConnections() {
    for (const int one : sockets_) ::close(one);
  }

 private:
  std::vector<int> sockets_;
};

// A study that machines with a token may join, started; without end, unless
// another recipe is given.
RunningProgram start_open_study(
    Workplace& place,
    const std::string& recipe = shell_recipe(100'000, 1, "0.1")) {
  make_keys(place);
  place.write("shell.yaml", recipe);
  return place.start(
      {"run", "shell.yaml", "--verbose", "--listen", "tcp://127.0.0.1:0"});
}

// Writes a token of that study to far.token; returns where agents connect to.
std::string leave_token(const Workplace& place) {
  const auto said = json_of(place.run({"token", "shell.yaml", "--json"}));
  place.write("far.token", std::string(said["token"]) + "\n");
  return said["connect"];
}

}  // namespace

TEST_CASE("what programs have started ends with a kill -9 of all of dtune") {
  Workplace place;
  place.hold();
  place.write("script.sh", kSaving);
  place.write("saving.yaml", saving_recipe("budget: { trials: 40 }\n"));
  RunningProgram program = place.start({"run", "saving.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 2/6"));
  kill_dtune(place, program);
  program.wait();
  CHECK(place.orphans().empty());
}

// With no environment of dtune's, in a session of its own, and not its child.
TEST_CASE("what hides from its program ends with a kill -9 of all of dtune") {
  Workplace place;
  place.hold();
  place.write("script.sh",
              "[ -e hidden ] || (env -i /bin/sh -c 'setsid sleep 600 "
              ">/dev/null 2>&1 & echo $! >hidden')\n" +
                  std::string(kSaving));
  place.write("saving.yaml", saving_recipe("budget: { trials: 40 }\n"));
  RunningProgram program = place.start({"run", "saving.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 2/6"));
  const pid_t hidden = std::stoi(place.read("hidden"));
  CHECK(contains(command_line(hidden), "sleep 600"));
  const bool grouped = contains(proc_text(hidden, "cgroup"), "/dtune-");
  kill_dtune(place, program);
  program.wait();
  if (!grouped) {
    ::kill(hidden, SIGKILL);
    return skip("cgroup v2 is not writable here");
  }
  CHECK(eventually([&] { return command_line(hidden).empty(); }));
}

TEST_CASE("the agent cleans up when its coordinator alone is killed") {
  Workplace place;
  place.hold();
  place.write("script.sh", kSaving);
  place.write("saving.yaml", saving_recipe("budget: { trials: 40 }\n"));
  RunningProgram program = place.start({"run", "saving.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 2/6"));
  program.send(SIGKILL);
  program.wait();
  CHECK(place.orphans().empty());
}

// For longer than a lease.
TEST_CASE("a coordinator and an agent that are stopped cost no result") {
  Workplace place;
  place.hold();
  place.write("shell.yaml",
              held_recipe(6, 6, "0.05", 5) +
                  "limits: { lease: 1s, heartbeat: 200ms, retries: 9 }\n");
  RunningProgram program = place.start(
      {"run", "shell.yaml", "--verbose", "--events", "events.json"});
  REQUIRE(program.wait_for("step 1/6"));
  std::vector<pid_t> both = {program.pid()};
  for (const std::string& one : place.orphans(/*patience_ms=*/0)) {
    const pid_t pid = std::stoi(one);
    if (contains(command_line(pid), " agent ")) both.push_back(pid);
  }
  REQUIRE(both.size() == 2);
  for (const pid_t pid : both) {
    ::kill(pid, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(1300));
    ::kill(pid, SIGCONT);
  }
  place.release();
  const Outcome outcome = program.wait();
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  const auto status = json_of(place.run({"status", "shell.db", "--json"}));
  CHECK(status["trials"]["total"] == 6);
  CHECK(status["trials"]["failed"] == 0);
  CHECK(contradictions(place / "shell.db", place / "events.json").empty());
  CHECK(place.orphans().empty());
}

TEST_CASE("an edited database is refused with a message by every command") {
  Workplace place;
  place.write("shell.yaml", shell_recipe(3, 3, "0") + "scheduler: fifo\n");
  REQUIRE(place.run({"run", "shell.yaml", "--quiet"}).code == 0);
  fs::rename(place / "shell.db", place / "whole.db");
  for (const char* sql :
       {"UPDATE report SET step = 2147483648 WHERE step = 2",
        "DELETE FROM report WHERE trial = (SELECT json_extract(final_json, "
        "'$.best') FROM study)",
        "DELETE FROM report WHERE trial <> (SELECT json_extract(final_json, "
        "'$.best') FROM study)",
        "DELETE FROM report WHERE trial = 3 AND step = 3",
        "DELETE FROM session", "UPDATE trial SET unit = '[]'",
        "DELETE FROM trial WHERE id = 2", "UPDATE study SET budget_steps = -5",
        "UPDATE report SET metrics = '{}'", "PRAGMA user_version = 1",
        "DROP TABLE decision"}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{
             {"status", "shell.db"},
             {"replay", "shell.db"},
             {"resume", "shell.db", "--trials", "+1", "--quiet"}}) {
      CAPTURE(std::string(sql));
      CAPTURE(words[0]);
      fs::copy_file(place / "whole.db", place / "shell.db",
                    fs::copy_options::overwrite_existing);
      Database(place / "shell.db", DatabaseAccess::write).execute(sql);
      const Outcome outcome = place.run(words);
      // Sessions are looked at only where they are needed; other results only
      // lead to other decisions.
      const bool replays = words[0] == "replay";
      const bool matters = contains(sql, "session")   ? replays
                           : contains(sql, "metrics") ? !replays
                                                      : true;
      if (matters) {
        CHECK_MESSAGE(outcome.code == 2, outcome.err);
        CHECK(contains(outcome.err, "shell.db: "));
      }
      CHECK(outcome.signal == 0);
      CHECK_FALSE(contains(outcome.err, "a bug in dtune"));
    }
  }
}

TEST_CASE("a copy of a study has checkpoints of its own") {
  Workplace place;
  place.hold();
  place.write("script.sh", kSaving);
  place.write("saving.yaml",
              saving_recipe("budget: { trials: 8 }\nsampler: sobol\n"
                            "scheduler: asha\n"));
  {
    RunningProgram program = place.start({"run", "saving.yaml", "--verbose"});
    REQUIRE(program.wait_for("trial 3 "));
    program.send(SIGINT);
    REQUIRE(program.wait().code == 130);
  }
  place.release();
  const fs::path checkpoints = place / "saving.files/checkpoints";
  const auto before = files_in(checkpoints);
  REQUIRE_FALSE(before.empty());
  fs::create_directory(place / "copy");
  fs::copy_file(place / "saving.db", place / "copy/saving.db");
  const Outcome outcome =
      place.run({"resume", "copy/saving.db", "--quiet", "--set",
                 "command.directory=" + place.path().string()});
  CHECK_MESSAGE(outcome.signal == 0, outcome.err);
  CHECK(files_in(checkpoints) == before);
}

TEST_CASE("a study is run once, whichever link leads to it") {
  Workplace place;
  place.hold();
  place.write("shell.yaml", held_recipe(4, 3, "0", 1));
  RunningProgram program = place.start({"run", "shell.yaml", "--verbose"});
  REQUIRE(program.wait_for("step 1/3"));
  fs::create_symlink(place / "shell.db", place / "link.db");
  const Outcome second = place.run({"resume", "link.db"});
  CHECK(second.code == 75);
  CHECK(contains(second.err, fmt::format("process {}", program.pid())));
  program.send(SIGTERM);
  CHECK(program.wait().code == 130);
}

TEST_CASE("connections that send nothing cost a study nothing") {
  Workplace place;
  place.hold();
  RunningProgram program =
      start_open_study(place, held_recipe(30, 3, "0.02", 1));
  REQUIRE(program.wait_for("step 1/3"));
  const Outcome token = place.run({"token", "shell.yaml", "--json"});
  REQUIRE_MESSAGE(token.code == 0, token.err);
  const std::string endpoint = nlohmann::json::parse(token.out)["connect"];
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  const rlimit few{128, 128};
  REQUIRE(::prlimit(program.pid(), RLIMIT_NOFILE, &few, nullptr) == 0);
  const IdleConnections connections(port, 400);
  place.release();
  const Outcome outcome = program.wait();
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK_FALSE(contains(outcome.out, "process has ended"));
  const auto status = json_of(place.run({"status", "shell.yaml", "--json"}));
  CHECK(status["trials"]["total"] == 30);
  CHECK(status["failures"].empty());
}

TEST_CASE("a machine that is revoked leaves a study that runs") {
  Workplace place;
  RunningProgram program = start_open_study(place);
  REQUIRE(program.wait_for("study shell started"));
  const std::string endpoint = leave_token(place);
  const auto agent = [&] {
    return place.start({"agent", "--connect", endpoint, "--token-file",
                        "far.token", "--node", "far", "--state", "far",
                        "--slots", "1", "--wait", "100s"});
  };
  RunningProgram far = agent();
  REQUIRE(program.wait_for("node far has joined"));
  const auto list =
      json_of(place.run({"token", "shell.yaml", "--list", "--json"}));
  REQUIRE(list["joined"].size() == 1);
  CHECK(list["joined"][0]["node"] == "far");
  CHECK(place.run({"token", "shell.yaml", "--revoke", "near"}).code == 2);
  CHECK(place.run({"token", "shell.yaml", "--revoke", "far"}).code == 0);
  CHECK(program.wait_for("node far may not take part any more"));
  far.send(SIGKILL);
  far.wait();
  RunningProgram again = agent();  // its token was used
  CHECK(again.wait().code == 2);
  CHECK(
      json_of(place.run({"token", "shell.yaml", "--list", "--json"}))["joined"]
          .empty());
  program.send(SIGINT);
  CHECK(program.wait().code == 130);
}

TEST_CASE("an agent that fuses trials does not fuse programs") {
  Workplace place;
  RunningProgram program = start_open_study(place);
  REQUIRE(program.wait_for("study shell started"));
  const std::string endpoint = leave_token(place);
  RunningProgram far = place.start(
      {"agent", "--connect", endpoint, "--token-file", "far.token", "--node",
       "far", "--state", "far", "--slots", "2", "--fused", "8"});
  // Sixteen slots where trials may be fused.
  CHECK(program.wait_for("node far has joined with 2 slots"));
  program.send(SIGINT);
  CHECK(program.wait().code == 130);
  const Outcome agent = far.wait();
  CHECK(contains(agent.err, "one trial in place of 8"));
}

TEST_CASE("doctor says what is in the way to a coordinator") {
  Workplace place;
  RunningProgram program = start_open_study(place);
  REQUIRE(program.wait_for("study shell started"));
  const std::string endpoint = leave_token(place);
  const auto doctor = [&](const std::string& where) {
    return place.run({"doctor", "--connect", where, "--ports", "20000-20200"});
  };
  const Outcome stranger = doctor(endpoint);
  CHECK(stranger.code == 1);
  CHECK(contains(stranger.out, "is open"));
  CHECK(contains(stranger.out, "of the 201 ports 20000-20200 of 127.0.0.1"));
  CHECK_MESSAGE(contains(stranger.out, "'dtune token STUDY' there prints one"),
                stranger.out);
  const Outcome closed = doctor("tcp://127.0.0.1:1");
  CHECK(closed.code == 1);
  CHECK(contains(closed.out, "nothing listens at 127.0.0.1 port 1"));
  CHECK(doctor("127.0.0.1:1").code == 1);
  const auto with_token = [&] {
    return place.run(
        {"doctor", "--connect", endpoint, "--token-file", "far.token"});
  };
  for (int i = 0; i < 2; ++i) {  // it is not used up
    const Outcome good = with_token();
    CHECK(good.code == 0);
    CHECK_MESSAGE(contains(good.out, "the token can be used"), good.out);
  }
  CHECK(place.run({"token", "shell.yaml", "--revoke-unused"}).code == 0);
  const std::string port = endpoint.substr(endpoint.rfind(':') + 1);
  place.environment["DTUNE_PORTS"] = port + "-" + port;  // the coordinator's
  const Outcome revoked = with_token();
  CHECK(revoked.code == 1);
  CHECK_MESSAGE(contains(revoked.out, "was revoked"), revoked.out);
  CHECK(contains(revoked.out, "none of the ports " + port));
  program.send(SIGINT);
  program.wait();
}

TEST_CASE("doctor says how far a machine's clock is from the coordinator's") {
  if (preload().empty()) return skip(kNoPreload);
  Workplace place;
  RunningProgram program = start_open_study(place);
  REQUIRE(program.wait_for("study shell started"));
  const std::string endpoint = leave_token(place);
  const RunningProgram agent =
      place.start({"agent", "--connect", endpoint, "--token-file", "far.token",
                   "--node", "far", "--slots", "1"});
  REQUIRE(program.wait_for("node far has joined"));
  const auto doctor = [&] {
    return place.run({"doctor", "--connect", endpoint});
  };
  const Outcome good = doctor();
  CHECK_MESSAGE(good.code == 0, good.out);
  CHECK_FALSE(contains(good.out, "the coordinator's\n"));
  place.environment["LD_PRELOAD"] = preload();
  place.environment["DTUNE_TEST_CLOCK"] = (place / "clock").string();
  place.write("clock", "7200");
  const Outcome ahead = doctor();
  CHECK_MESSAGE(ahead.code == 0, ahead.out);
  CHECK_MESSAGE(contains(ahead.out, "ahead of the coordinator's"), ahead.out);
  CHECK(contains(ahead.out, "set-ntp"));
  place.write("clock", "-7200");
  CHECK(contains(doctor().out, "behind the coordinator's"));
  program.send(SIGINT);
  program.wait();
}

TEST_CASE("a limit of processes that is reached for a moment costs nothing") {
  if (preload().empty()) return skip(kNoPreload);
  Workplace place;
  place.write("shell.yaml", shell_recipe(2, 1, "0"));
  place.write("forks", "3\n");
  place.environment["LD_PRELOAD"] = preload();
  place.environment["DTUNE_TEST_FORK"] = (place / "forks").string();
  const Outcome outcome = place.run({"run", "shell.yaml"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(read_file(place / "forks") == "0\n");
  const auto status = json_of(place.run({"status", "shell.yaml", "--json"}));
  CHECK(status["failures"].empty());
}

TEST_CASE("a token that other users can read is warned of") {
  Workplace place;
  place.write("token", "no token\n");
  const auto agent = [&] {
    return place.run(
        {"agent", "--connect", "tcp://127.0.0.1:1", "--token-file", "token"});
  };
  constexpr const char* kWarning = "other users of this machine can read";
  fs::permissions(place / "token", fs::perms(0644));
  CHECK(contains(agent().err, kWarning));
  fs::permissions(place / "token", fs::perms(0600));
  const Outcome refused = agent();
  CHECK(refused.code == 2);
  CHECK_FALSE(contains(refused.err, kWarning));
}

// The content before the name, and the name before it is spoken of.
TEST_CASE("a model and its name are on the disk once they are there") {
  if (preload().empty()) return skip(kNoPreload);
  Workplace place;
  place.write(
      "tiny.yaml",
      "study: tiny\n"
      "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 90 }\n"
      "model: { arch: cnn-small, width: 4 }\n"
      "train: { epochs: 1 }\n"
      "budget: { trials: 1 }\n"
      "slots: 1\n");
  place.environment["LD_PRELOAD"] = preload();
  place.environment["DTUNE_TEST_DISK"] = (place / "disk").string();
  const Outcome outcome = place.run({"run", "tiny.yaml"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  std::vector<std::string> lines;
  std::istringstream text(read_file(place / "disk"));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  const auto named = std::ranges::find_if(lines, [](const std::string& line) {
    return line.starts_with("rename ") && line.ends_with("/model.safetensors");
  });
  REQUIRE(named != lines.end());
  const std::string folder = fs::path(named->substr(7)).parent_path().string();
  CHECK(std::any_of(lines.begin(), named, [&](const std::string& line) {
    return line.starts_with("sync " + folder + "/") &&
           contains(line, "model.safetensors");
  }));
  CHECK(std::find(named, lines.end(), "sync " + folder) != lines.end());
}
