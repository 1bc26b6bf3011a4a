// The machines of a study, from outside.
#include <csignal>
#include <utility>

#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

// Three ranks, where resources.slots alone has room for one.
std::string gang_recipe(const std::string& nodes) {
  return "study: gang\n"
         "data: { kind: synthetic, size: [8, 8], classes: 3, samples: 200 }\n"
         "model: { arch: cnn-small, width: 4 }\n"
         "train: { epochs: 2, batch_size: 32 }\n"
         "budget: { trials: 1 }\n"
         "parallel: { mode: data, ranks: 3 }\n"
         "resources: { slots: 1 }\n" +
         nodes;
}

// A PNG of 8x8 pixels.
std::string black_image() {
  constexpr std::string_view kHex =
      "89504e470d0a1a0a0000000d4948445200000008000000080800000000e164e1570000"
      "000c4944415478da6360a00e0000004800011045efd20000000049454e44ae426082";
  std::string bytes;
  for (size_t i = 0; i < kHex.size(); i += 2) {
    bytes += char(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// With keys of its own.
struct Home : Workplace {
  Home() {
    environment["XDG_CONFIG_HOME"] = (path() / "config").string();
    CHECK(run({"keygen"}).code == 0);
  }
  // A long study that others may join, and what `dtune token` says of it.
  RunningProgram open_study() const {
    write("shell.yaml", shell_recipe(100'000, 1, "0.1"));
    return start(
        {"run", "shell.yaml", "--plain", "--listen", "tcp://127.0.0.1:0"});
  }
  nlohmann::json token() const {
    const Outcome told = run({"token", "shell.yaml", "--json"});
    REQUIRE_MESSAGE(told.code == 0, told.err);
    return nlohmann::json::parse(told.out);
  }
  RunningProgram agent(const std::string& node, const std::string& token,
                       const std::string& connect) const {
    write(node + ".token", token + "\n");
    return start({"agent", "--connect", connect, "--token-file",
                  node + ".token", "--node", node, "--state", node, "--slots",
                  "1", "--wait", "100s"});
  }
  // Of a machine that has joined before, by the keys that it kept.
  RunningProgram known_agent(const std::string& state,
                             const std::string& connect,
                             const std::string& wait) const {
    return start({"agent", "--connect", connect, "--node", "again", "--state",
                  state, "--slots", "1", "--wait", wait});
  }
};

}  // namespace

TEST_CASE("a gang fits the slots that the recipe gives this machine") {
  const Workplace place;
  place.write("gang.yaml", gang_recipe("nodes: [ local slots=3 ]\n"));
  const Outcome outcome = place.run({"plan", "gang.yaml", "--json"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(nlohmann::json::parse(outcome.out)["slots"]["slots"] == 3);
}

TEST_CASE("a gang that does not fit says which key to change") {
  const Workplace place;
  place.write("one.yaml", gang_recipe(""));
  place.write("two.yaml", gang_recipe("nodes: [ local slots=2 ]\n"));
  const Outcome one = place.run({"plan", "one.yaml"});
  CHECK(one.code == 2);
  CHECK(contains(one.err, "takes 3 slots, this machine has 1"));
  CHECK(contains(one.err, "resources.slots: 3"));
  const Outcome two = place.run({"plan", "two.yaml"});
  CHECK(two.code == 2);
  CHECK(contains(two.err, "takes 3 slots, this machine has 2"));
  CHECK(contains(two.err, "nodes: local slots=3"));
}

TEST_CASE("a pipeline of more stages than layers is refused before it runs") {
  const Workplace place;
  const std::string cut =
      "parallel: { mode: model, ranks: 50 }\nresources: { slots: 50 }\n";
  place.write("synthetic.yaml",
              "data: { kind: synthetic, size: [8, 8], samples: 200 }\n" + cut);
  for (const char* command : {"validate", "plan", "run"}) {
    CAPTURE(command);
    const Outcome outcome = place.run({command, "synthetic.yaml"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, "parallel.ranks"), outcome.err);
    CHECK_MESSAGE(contains(outcome.err, "50 stages"), outcome.err);
    CHECK_MESSAGE(contains(outcome.err, "11 layers"), outcome.err);
  }
  CHECK_FALSE(place.has("synthetic.db"));
  // Just as many stages as 'dtune plan' lists layers.
  const Outcome most = place.run(
      {"plan", "synthetic.yaml", "--json", "--set", "parallel.ranks=11"});
  REQUIRE_MESSAGE(most.code == 0, most.err);
  CHECK(nlohmann::json::parse(most.out)["model"]["layers"].size() == 11);
}

TEST_CASE("how many layers there are may be known with the data alone") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directories(place / "images" / name);
    for (const char number : {'0', '1', '2', '3', '4', '5'}) {
      place.write(std::string("images/") + name + "/" + number + ".png",
                  black_image());
    }
  }
  place.write("folder.yaml",
              "data: { kind: folder, path: images }\n"
              "parallel: { mode: hybrid, data: 2, model: 12 }\n"
              "resources: { slots: 24 }\n");
  CHECK(place.run({"validate", "folder.yaml"}).code == 0);
  for (const char* command : {"plan", "run"}) {
    CAPTURE(command);
    const Outcome outcome = place.run({command, "folder.yaml"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, "parallel.model"), outcome.err);
    CHECK_MESSAGE(contains(outcome.err, "12 stages"), outcome.err);
    CHECK_MESSAGE(contains(outcome.err, "11 layers"), outcome.err);
  }
  CHECK_FALSE(place.has("folder.db"));
  // Another mode has no use for some of the keys that were stored with this
  // one: nothing to complain about.
  RunningProgram run =
      place.start({"run", "folder.yaml", "--set", "parallel.model=2"});
  REQUIRE(run.wait_for("started"));
  run.send_group(SIGKILL);
  run.wait();
  const Outcome resumed =
      place.run({"resume", "folder.db", "--set", "parallel.mode=model", "--set",
                 "parallel.ranks=14"});
  CHECK(resumed.code == 2);
  CHECK_MESSAGE(contains(resumed.err, "14 stages"), resumed.err);
  CHECK_MESSAGE(!contains(resumed.err, "has no effect"), resumed.err);
}

TEST_CASE("an address that cannot be listened on is named as it was written") {
  const Workplace place;
  place.write("shell.yaml", shell_recipe(1, 1, "0"));
  const std::pair<const char*, const char*> wrong[] = {
      {"tcp://192.0.2.1:5555", "is not an address of this machine"},
      {"tcp://0.0.0.0:5555", "listens on every network of this machine"},
      {"tcp://*:5555", "listens on every network of this machine"},
      {"tcp://10.0.0.1", "write tcp://host:port"},
      {"10.0.0.1:5555", "is not an address to listen on"}};
  for (const auto& [address, why] : wrong) {
    CAPTURE(address);
    const Outcome outcome =
        place.run({"run", "shell.yaml", "--listen", address});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, address), outcome.err);
    CHECK_MESSAGE(contains(outcome.err, why), outcome.err);
  }
  // Right, but there are no keys.
  const Outcome outcome =
      place.run({"run", "shell.yaml", "--listen", "tcp://127.0.0.1:0"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "dtune keygen"));
  CHECK_FALSE(place.has("shell.db"));
}

TEST_CASE("every token of a study that runs lets one more machine join") {
  const Home place;
  RunningProgram run = place.open_study();
  REQUIRE(run.wait_for("trial"));
  const auto said = place.token();
  const std::string connect = said["connect"];
  const Outcome more = place.run({"token", "shell"});
  REQUIRE_MESSAGE(more.code == 0, more.err);
  CHECK(more.out.starts_with("dtune2-"));
  CHECK(contains(more.err, "dtune agent --connect " + connect));
  CHECK(more.out != said["token"].get<std::string>() + "\n");

  RunningProgram one = place.agent("one", said["token"], connect);
  CHECK(run.wait_for("node one has joined"));
  RunningProgram two = place.agent("two", more.out, connect);
  CHECK(run.wait_for("node two has joined"));
  const Outcome third = place.agent("three", said["token"], connect).wait();
  CHECK(third.code == 2);
  CHECK_MESSAGE(contains(third.err, "does not accept this token"), third.err);
  CHECK(run.wait_for("the token was used by one"));

  run.send(SIGINT);
  CHECK(run.wait().code == 130);
  CHECK_FALSE(place.has("shell.files/door"));
  const Outcome agent = one.wait();
  CHECK(agent.code == 0);
  CHECK_MESSAGE(contains(agent.err, "joined the study with 1 slot"), agent.err);
  CHECK_MESSAGE(contains(agent.err, "the study's run is over"), agent.err);
}

TEST_CASE("over loopback, too, a machine joins again by its own key") {
  const Home place;
  RunningProgram run = place.open_study();
  REQUIRE(run.wait_for("trial"));
  const auto said = place.token();
  const std::string connect = said["connect"];

  const Outcome stranger = place.known_agent("other", connect, "100s").wait();
  CHECK(stranger.code == 2);
  CHECK_MESSAGE(contains(stranger.err, "has not joined there before"),
                stranger.err);

  RunningProgram first = place.agent("one", said["token"], connect);
  REQUIRE(run.wait_for("node one has joined"));
  first.send(SIGUSR2);             // its deadline is near
  CHECK(first.wait().code == 75);  // it had to leave: another is to be run
  RunningProgram again = place.known_agent("one", connect, "100s");
  REQUIRE(run.wait_for("node again has joined"));
  run.send(SIGINT);
  CHECK(run.wait().code == 130);
  const Outcome agent = again.wait();
  CHECK(agent.code == 0);
  CHECK_MESSAGE(contains(agent.err, "joined the study with 1 slot"), agent.err);
}

namespace {

// An agent of one slot, of node `one`, that joins the study that runs here.
void run_agent_to_its_end(const Home& place,
                          const std::vector<std::string>& options) {
  const auto said = place.token();
  place.write("one.token", said["token"].get<std::string>() + "\n");
  std::vector<std::string> words = {
      "agent",  "--connect", said["connect"], "--token-file", "one.token",
      "--node", "one",       "--state",       "one",          "--slots",
      "1"};
  words.insert(words.end(), options.begin(), options.end());
  const Outcome agent = place.run(words);
  CHECK_MESSAGE(agent.code == 0, agent.err);
}

}  // namespace

// What a worker's program inherits, its ranks have, too.
TEST_CASE("--encrypt-ranks reaches the workers of run and resume") {
  const Workplace place;
  place.write("r.yaml",
              "command: { run: [sh, -c, 'echo step=1 "
              "a=0$DTUNE_ENCRYPT_RANKS'], steps: 1 }\n"
              "space: { x: { log: [0.01, 1] } }\n"
              "objective: a\n"
              "slots: 1\n"
              "budget: { trials: 1 }\n"
              "expect: { a: '>= 1' }\n");
  CHECK(place.run({"run", "r.yaml", "--quiet"}).code == 1);
  const Outcome resumed = place.run(
      {"resume", "r.db", "--trials", "+1", "--quiet", "--encrypt-ranks"});
  CHECK_MESSAGE(resumed.code == 0, resumed.err);
  const Outcome run =
      place.run({"run", "r.yaml", "--quiet", "--fresh", "--encrypt-ranks"});
  CHECK_MESSAGE(run.code == 0, run.err);
}

// The agent leaves some 20 s before its end: here soon, or as it comes where
// that took long. No trial goes on before it has left.
TEST_CASE("an agent leaves before its engine ends it") {
  const Home place;
  place.write("shell.yaml", held_recipe(14, 3, "0.1", 1));
  place.hold();
  RunningProgram run = place.start(
      {"run", "shell.yaml", "--verbose", "--listen", "tcp://127.0.0.1:0"});
  REQUIRE(run.wait_for("trial"));
  run_agent_to_its_end(place, {"--lifetime", "22s"});
  place.release();
  const Outcome outcome = run.wait();
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK_MESSAGE(contains(outcome.out, "node one leaves: its engine ends it in"),
                outcome.out);
  CHECK_MESSAGE(contains(outcome.out, "14 trials"), outcome.out);
}

TEST_CASE("an agent without a trial leaves after --idle") {
  const Home place;
  place.write("shell.yaml", shell_recipe(1, 10'000, "0.2"));
  RunningProgram run = place.start(
      {"run", "shell.yaml", "--verbose", "--listen", "tcp://127.0.0.1:0"});
  REQUIRE(run.wait_for("step 1/"));
  run_agent_to_its_end(place, {"--idle", "1s"});
  CHECK(run.wait_for("node one has left: it had no trial for 1s"));
  run.send(SIGINT);
  CHECK(run.wait().code == 130);
}

TEST_CASE("an agent whose coordinator is evicted is to be run again") {
  Home place;
  place.environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1";
  RunningProgram run = place.open_study();
  REQUIRE(run.wait_for("trial"));
  const auto said = place.token();
  RunningProgram agent = place.agent("one", said["token"], said["connect"]);
  REQUIRE(run.wait_for("node one has joined"));
  run.send(SIGTERM);
  CHECK(run.wait().code == 130);
  const Outcome left = agent.wait();
  CHECK(left.code == 75);
  CHECK_MESSAGE(contains(left.err, "will be started again"), left.err);
}

TEST_CASE("an agent looks for its coordinator for as long as --wait says") {
  const Home place;
  std::string connect;
  {
    RunningProgram run = place.open_study();
    REQUIRE(run.wait_for("trial"));
    const auto said = place.token();
    connect = said["connect"];
    RunningProgram agent = place.agent("one", said["token"], connect);
    REQUIRE(run.wait_for("node one has joined"));
    run.send(SIGINT);
    run.wait();
    agent.wait();
  }
  for (const std::string& endpoint :
       {connect, "ipc://" + (place / "unused").string()}) {
    CAPTURE(endpoint);
    // For ten minutes, if it were not said.
    const Outcome outcome = place.known_agent("one", endpoint, "1s").wait();
    CHECK(outcome.code == 75);
    CHECK_MESSAGE(contains(outcome.err, "1s"), outcome.err);
  }
}

TEST_CASE("there is no token where nothing runs or no machine may join") {
  const Workplace place;
  CHECK(place.run({"token", "shell.yaml"}).code == 2);
  place.write("shell.yaml", shell_recipe(100'000, 1, "0.1"));
  RunningProgram run = place.start({"run", "shell.yaml", "--plain"});
  REQUIRE(run.wait_for("trial"));
  const Outcome shut = place.run({"token", "shell.yaml"});
  CHECK(shut.code == 2);
  CHECK(shut.out.empty());
  CHECK_MESSAGE(contains(shut.err, "does not accept other machines"), shut.err);
  run.send(SIGINT);
  CHECK(run.wait().code == 130);
  const Outcome over = place.run({"token", "shell.yaml"});
  CHECK(over.code == 2);
  CHECK_MESSAGE(contains(over.err, "no process runs this study now"), over.err);
}
