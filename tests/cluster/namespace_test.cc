// A study on two machines whose network fails, or lets little through.
#include <algorithm>
#include <filesystem>
#include <map>

#include "cluster/network.h"
#include "cluster/remote_study.h"
#include "eventually.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test
using toy::Network;

namespace {

namespace fs = std::filesystem;

constexpr char kNeedsNetwork[] =
    "network namespaces need root and iproute2 (ip netns)";

toy::RemoteStudy::Places places(const Network& network) {
  return {network.inside("a"), network.inside("b"), Network::kAddressA, 5555};
}

// dtune itself at one side.
std::unique_ptr<Child> start_dtune(const Network& network,
                                   const std::string& side,
                                   std::vector<std::string> words,
                                   std::map<std::string, std::string> more) {
  SpawnOptions spawn;
  spawn.argv = network.inside(side);
  spawn.argv.emplace_back(DTUNE_BINARY);
  spawn.argv.insert(spawn.argv.end(), words.begin(), words.end());
  spawn.environment = std::move(more);
  spawn.merge = true;
  return std::make_unique<Child>(spawn);
}

// Reads what the child says until a word begins with `begin`; that word.
std::string word_said(Child& child, const std::string& begin,
                      std::string& text) {
  size_t at = std::string::npos;
  eventually([&] {
    child.read_out(text);
    at = text.find(begin);
    const bool whole = at != std::string::npos &&
                       text.find_first_of(" \n", at) != std::string::npos;
    return whole || child.status().has_value();
  });
  if (at == std::string::npos) return "";
  return text.substr(at, text.find_first_of(" \n", at) - at);
}

}  // namespace

TEST_CASE("a study runs between two namespaces over CURVE") {
  const Network network;
  if (!network.ready()) return skip(kNeedsNetwork);
  toy::RemoteStudy study("netns", 4, "learn", places(network));
  study.start_coordinator();
  CHECK(study.endpoint == "tcp://10.213.7.1:5555");
  Child& agent = study.start_agent("token1");
  CHECK(study.result() == 0);
  const toy::Ending ending = toy::ending_of(agent);
  CHECK_MESSAGE(ending.code == 0, ending.text);
}

TEST_CASE("a study goes on after the cable was pulled at either end") {
  for (const std::string side : {"a", "b"}) {
    CAPTURE(side);
    Network network;
    if (!network.ready()) return skip(kNeedsNetwork);
    toy::RemoteStudy study("partition", 4, "wait_once", places(network));
    study.start_coordinator();
    study.start_agent("token1");
    REQUIRE(study.trains(3));
    REQUIRE(network.pull(side));
    CHECK(study.notices("node far has been silent"));
    REQUIRE(network.plug(side));
    CHECK(study.notices("node far is back"));
    CHECK(study.result() == 0);
  }
}

TEST_CASE("a study goes on after either end was not heard by the other") {
  for (const std::string side : {"a", "b"}) {
    CAPTURE(side);
    Network network;
    if (!network.ready()) return skip(kNeedsNetwork);
    toy::RemoteStudy study("one-way", 4, "wait_once", places(network));
    study.start_coordinator();
    study.start_agent("token1");
    REQUIRE(study.trains(3));
    REQUIRE(network.mute(side));
    CHECK(study.notices("node far has been silent"));
    REQUIRE(network.unmute(side));
    CHECK(study.notices("node far is back"));
    CHECK(study.result() == 0);
  }
}

TEST_CASE("a half-open connection is replaced") {
  Network network;
  if (!network.ready()) return skip(kNeedsNetwork);
  toy::RemoteStudy study("halfopen", 3, "wait_once", places(network));
  study.start_coordinator();
  Child& first = study.start_agent("token1", "one");
  REQUIRE(study.trains(3));
  REQUIRE(network.pull("b"));  // neither FIN nor RST reaches the coordinator
  kill(first.pid(), SIGKILL);
  CHECK(study.notices("node far has been silent"));
  REQUIRE(network.plug("b"));
  study.start_agent("token2", "two", "next");
  CHECK(study.result() == 0);
  CHECK(study.said().find("node next has joined") != std::string::npos);
}

TEST_CASE("a machine that cannot be reached is reported as such") {
  Network network;
  if (!network.ready()) return skip(kNeedsNetwork);
  toy::RemoteStudy study("unreached", 1, "learn", places(network));
  study.start_coordinator();
  REQUIRE(network.pull("a"));
  const toy::Ending ending =
      toy::ending_of(study.start_agent("token1", "s", "far", 6));
  CHECK(ending.code == kExitTemporary);
  CHECK(ending.text.find("there is no answer at this address") !=
        std::string::npos);
}

TEST_CASE("dtune tunes a command on two machines after one line was carried") {
  const Network network;
  if (!network.ready()) return skip(kNeedsNetwork);
  const TemporaryDirectory folder;
  const std::string home = folder.path();
  const auto path = [&](const char* name) { return home + "/" + name; };
  // No trial ends here before one has begun there.
  write_file_atomic(path("trial.sh"),
                    "echo ${PLACE:-near} >> " + path("places") +
                        "\nfor s in 1 2 3; do\n"
                        "until grep -q far " +
                        path("places") +
                        "; do sleep 0.05; done\n"
                        "echo step=$s val_accuracy=0.$((4 + s)); done\n",
                    false);
  write_file_atomic(path("shell.yaml"),
                    "study: shell\n"
                    "command: { run: \"sh " +
                        path("trial.sh") +
                        " {lr}\", "
                        "steps: 3 }\n"
                        "space: { lr: { log: [1.0e-4, 1.0] } }\n"
                        "budget: { trials: 24 }\n"
                        "slots: 1\n",
                    false);
  const std::map<std::string, std::string> at_home = {{"HOME", home}};
  auto keygen = start_dtune(network, "a", {"keygen"}, at_home);
  const toy::Ending keys = toy::ending_of(*keygen);
  REQUIRE_MESSAGE(keys.code == 0, keys.text);
  auto head = start_dtune(network, "a",
                          {"run", path("shell.yaml"), "--plain", "--listen",
                           "tcp://10.213.7.1:5555"},
                          at_home);
  std::string said;
  REQUIRE_MESSAGE(!word_said(*head, "tcp://10.213.7.1:5555", said).empty(),
                  said);
  CHECK(said.find("dtune2-") == std::string::npos);  // no terminal: a log
  auto asked =
      start_dtune(network, "a", {"token", path("shell.yaml")}, at_home);
  const std::string token = word_said(*asked, "dtune2-", said);
  REQUIRE_MESSAGE(!token.empty(), said);
  write_file_atomic(path("token"), token + "\n", false);
  auto far = start_dtune(
      network, "b",
      {"agent", "--connect", "tcp://10.213.7.1:5555", "--token-file",
       path("token"), "--slots", "2", "--node", "far"},
      {{"HOME", path("far")}, {"PLACE", "far"}});
  const toy::Ending study = toy::ending_of(*head);
  CHECK_MESSAGE(study.code == 0, study.text);
  const toy::Ending agent = toy::ending_of(*far);
  CHECK_MESSAGE(agent.code == 0, agent.text);
  said += study.text;
  CHECK_MESSAGE(
      said.find("node far has joined with 2 slots") != std::string::npos, said);
  const std::string places_used = read_file(path("places"));
  CHECK(places_used.find("far") != std::string::npos);
  CHECK(places_used.find("near") != std::string::npos);
}

// A gang over two machines that share no disk: orders, enrolment, the gang's
// rounds, data, checkpoints and the model go over the one port.
TEST_CASE("a fire wall has to let in one port, and the range for ranks") {
  const fs::path root = fs::path(DTUNE_BINARY).parent_path().parent_path();
  if (!fs::exists(root / "lib/dtune/libdtune_train.so")) {
    return skip("this dtune was built without LibTorch");
  }
  const Network network;
  if (!network.ready()) return skip(kNeedsNetwork);
  if (!network.wall("a", {"5555", "5600:5601"}) ||
      !network.wall("b", {"5600:5699"})) {
    return skip("a fire wall needs iptables");
  }
  const TemporaryDirectory folder;
  const std::string home = folder.path();
  const auto path = [&](const char* name) { return home + "/" + name; };
  for (const char* one : {"near", "far"}) fs::create_directory(path(one));
  write_file_atomic(path("near/gang.yaml"),
                    "study: gang\n"
                    "data: { kind: synthetic, size: [8, 8], classes: 3, "
                    "samples: 200 }\n"
                    "model: { arch: cnn-small, width: 4 }\n"
                    "train: { epochs: 2, batch_size: 32 }\n"
                    "budget: { trials: 1 }\n"
                    "parallel: { mode: data, ranks: 2 }\n"
                    "slots: 1\n",
                    false);
  const std::map<std::string, std::string> at_home = {{"HOME", path("near")}};
  const std::string recipe = path("near/gang.yaml");
  REQUIRE(
      toy::ending_of(*start_dtune(network, "a", {"keygen"}, at_home)).code ==
      0);
  auto head = start_dtune(network, "a",
                          {"run", recipe, "--plain", "--listen",
                           "tcp://10.213.7.1:5555", "--ports", "5600-5601"},
                          at_home);
  std::string said;
  REQUIRE_MESSAGE(!word_said(*head, "tcp://10.213.7.1:5555", said).empty(),
                  said);
  // The wall stands: what is dropped is not refused.
  SpawnOptions knock;
  knock.argv = network.inside("b");
  for (const char* word :
       {"timeout", "1", "bash", "-c", "exec 3<>/dev/tcp/10.213.7.1/5556"}) {
    knock.argv.emplace_back(word);
  }
  Child dropped(knock);
  CHECK(toy::ending_of(dropped).code == 124);
  auto asked = start_dtune(network, "a", {"token", recipe}, at_home);
  write_file_atomic(path("token"), word_said(*asked, "dtune2-", said) + "\n",
                    false);
  chmod(path("token").c_str(), 0600);
  SpawnOptions far;
  far.argv = network.inside("b");
  for (const std::string& word :
       {std::string("sh"), std::string("-c"),
        std::string("mount -t tmpfs none \"$0\" && exec \"$@\""), path("near"),
        std::string(DTUNE_BINARY), std::string("agent"),
        std::string("--connect"), std::string("tcp://10.213.7.1:5555"),
        std::string("--token-file"), path("token"), std::string("--slots"),
        std::string("1"), std::string("--node"), std::string("far"),
        std::string("--ports"), std::string("5600-5699")}) {
    far.argv.push_back(word);
  }
  far.environment = {{"HOME", path("far")}};
  far.merge = true;
  Child agent(far);
  const toy::Ending study = toy::ending_of(*head);
  CHECK_MESSAGE(study.code == 0, study.text);
  const toy::Ending left = toy::ending_of(agent);
  CHECK_MESSAGE(left.code == 0, left.text);
  CHECK_MESSAGE(study.text.find("node far has joined") != std::string::npos,
                study.text);
  CHECK(fs::exists(path("near/gang.files/model.safetensors")));
  const fs::recursive_directory_iterator files(path("far"));
  CHECK(std::any_of(begin(files), end(files), [](const auto& entry) {
    return entry.path().extension() == ".data";  // was fetched
  }));
}
