// Nodes that do not share the coordinator's disk: whole studies, and the parts.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cluster/local_study.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/cluster/lease_files.h"
#include "dtune/cluster/node_files.h"
#include "dtune/cluster/sidecar.h"

using namespace dtune;  // NOLINT: a test
namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    out.push_back(entry.path());
  }
  return out;
}

std::vector<fs::path> named_like(const fs::path& folder,
                                 const std::string& word) {
  std::vector<fs::path> out;
  for (const fs::path& path : files_in(folder)) {
    if (path.filename().string().find(word) != std::string::npos) {
      out.push_back(path);
    }
  }
  return out;
}

// A study whose node finds no probe where the coordinator has put it, and has a
// cache of its own.
struct Apart {
  TemporaryDirectory folder;
  TemporaryDirectory node;
  toy::LocalStudy local;

  Apart(const std::string& id, int slots, const Recipe& recipe,
        std::vector<Point> points)
      : local(folder.path(), id, slots, recipe, std::move(points)) {
    local.options.files.local = local.sockets.endpoint("files");
    local.options.prepared_data = folder.path() / "data";
    write_file_atomic(local.options.prepared_data, "prepared", false);
    local.options.ensure_local_agent =
        [this, ensure = local.options.ensure_local_agent] {
          for (const fs::path& probe :
               named_like(local.options.checkpoints, "probe")) {
            fs::remove(probe);
          }
          ensure();
        };
    setenv("XDG_CACHE_HOME", node.path().c_str(), 1);
  }
  ~Apart() { unsetenv("XDG_CACHE_HOME"); }

  fs::path checkpoint(TrialId trial) const {
    return local.options.checkpoints /
           ("trial-" + std::to_string(trial) + ".checkpoint");
  }
  fs::path cache() const { return node.path() / "dtune"; }
};

}  // namespace

TEST_CASE("a study runs on a node that does not share the coordinator's disk") {
  Recipe recipe = toy::recipe(3);
  Apart apart(toy::unique("apart"), 2, recipe,
              {toy::point(0.3), toy::point(0.9), toy::point(0.5)});
  bool behind = false;
  apart.local.sink.at_report = [&](const Study& study, const Trial& trial,
                                   const StepReport& report) {
    // What is reported as kept is here already, or was and is no longer needed.
    if (study.trial(trial.id).checkpoint_step != report.step) return;
    behind = behind ||
             std::stoi(read_file(apart.checkpoint(trial.id))) < report.step;
  };
  const StudyOutcome outcome = apart.local.run();
  CHECK(outcome.state == StudyState::finished);
  CHECK_FALSE(behind);
  CHECK(apart.local.final_metrics().at("test_accuracy") ==
        doctest::Approx(0.45));
  CHECK(fs::exists(apart.local.options.model_file));
  const Trial& best = apart.local.study.trial(outcome.best);
  CHECK(best.checkpoint_step == 5);
  CHECK(read_file(apart.checkpoint(best.id)) == "5");
  // Both workers wanted the data; the node has them once.
  const auto data = named_like(apart.cache() / "fetched", ".data");
  REQUIRE(data.size() == 1);
  CHECK(read_file(data.front()) == "prepared");
  CHECK(files_in(apart.cache() / "workers").empty());
  CHECK(named_like(apart.local.options.checkpoints, ".part").empty());
}

TEST_CASE(
    "a worker that is killed there costs its trial a step, not its past") {
  const toy::Setting patient(toy::kPatient, "60");
  Recipe recipe = toy::recipe(1);
  recipe.final_training.enabled = false;
  const std::string id = toy::unique("apart-kill");
  Apart apart(id, 1, recipe, {toy::point(0.5, "wait_once")});
  bool killed = false;
  apart.local.sink.at_report = [&](const Study&, const Trial& trial,
                                   const StepReport& report) {
    if (killed || report.step != 3) return;
    CHECK(trial.checkpoint_step == 3);
    killed = true;
    CHECK(toy::signal_worker(id, 0, SIGKILL));
  };
  CHECK(apart.local.run().state == StudyState::finished);
  const Trial& trial = apart.local.study.trial(1);
  CHECK(trial.steps() == 5);
  CHECK(trial.attempt == 2);
  // Each step was trained, or at least reported, once.
  CHECK(apart.local.sink.reports == 5);
  CHECK(toy::leftovers(id).empty());
}

namespace {

// Both ends, in one process.
struct Ends {
  TemporaryDirectory folder;
  TemporaryDirectory node;
  SocketDirectory sockets;
  fs::path prepared = folder.path() / "prepared";
  std::unique_ptr<LeaseFiles> leases;
  control::Welcome welcome;
  control::Assign assign;

  explicit Ends(size_t data_bytes = 8) {
    write_file_atomic(prepared, std::string(data_bytes, 'd'), false);
    LeaseFilesOptions options;
    options.listen.local = sockets.endpoint("files");
    options.checkpoints = folder.path() / "checkpoints";
    options.prepared_data = prepared;
    leases = std::make_unique<LeaseFiles>(options);
    welcome.session = "1";
    leases->describe(welcome, false);
    assign.trial = 7;
    assign.attempt = 2;
    assign.checkpoint = (options.checkpoints / "trial-7.checkpoint").string();
    assign.model_file = (folder.path() / "out" / "model.safetensors").string();
  }
  NodeFilesOptions node_options() const {
    NodeFilesOptions options;
    options.cache = node.path();
    return options;
  }
  control::Welcome elsewhere() const {
    control::Welcome out = welcome;
    out.probe_word = "another";
    return out;
  }
};

}  // namespace

TEST_CASE("where the disk is shared nothing travels") {
  Ends ends;
  NodeFiles files(ends.node_options());
  files.welcome(ends.welcome);
  CHECK(files.shared());
  CHECK(files.data(ends.prepared.string(), kNever) == ends.prepared);
  const control::Assign lease = files.take_up(ends.assign);
  CHECK(lease.checkpoint == ends.assign.checkpoint);
  CHECK(lease.model_file == ends.assign.model_file);
  CHECK(ends.leases->traffic().sent == 0);
  CHECK(files_in(ends.node.path()).empty());
}

TEST_CASE("workers of a node fetch the data once between them") {
  constexpr size_t kBytes = size_t{16} << 20;
  Ends ends(kBytes);
  std::vector<std::thread> workers;
  std::vector<fs::path> paths(3);
  for (size_t i = 0; i < paths.size(); ++i) {
    workers.emplace_back([&, i] {
      NodeFiles files(ends.node_options());
      files.welcome(ends.elsewhere());
      paths[i] = files.data(ends.prepared.string(), kNever);
    });
  }
  for (std::thread& worker : workers) worker.join();
  CHECK(paths[0] == paths[1]);
  CHECK(paths[0] == paths[2]);
  CHECK(read_file(paths[0]) == std::string(kBytes, 'd'));
  CHECK(ends.leases->traffic().sent == kBytes);
}

TEST_CASE("a lease's files go to the coordinator and come back") {
  Ends ends;
  ends.leases->open(ends.assign, "");
  {
    NodeFiles files(ends.node_options());
    files.welcome(ends.elsewhere());
    const control::Assign lease = files.take_up(ends.assign);
    CHECK(lease.checkpoint != ends.assign.checkpoint);
    files.fetch_checkpoint(lease, kNever);  // there is none yet
    CHECK_FALSE(files.wrote_checkpoint(lease));
    write_file_atomic(lease.checkpoint, "three", false);
    write_file_atomic(sidecar_path(lease.checkpoint), "reports", false);
    CHECK(files.wrote_checkpoint(lease));
    CHECK(files.send_checkpoint(lease, kNever));
    CHECK_FALSE(files.wrote_checkpoint(lease));
    files.send_model(lease, kNever);  // none was written: nothing to send
    write_file_atomic(lease.model_file, "model", false);
    write_file_atomic(recipe_beside(lease.model_file), "recipe", false);
    files.send_model(lease, kNever);
  }
  CHECK(read_file(ends.assign.checkpoint) == "three");
  CHECK(read_file(sidecar_path(ends.assign.checkpoint)) == "reports");
  CHECK(read_file(ends.assign.model_file) == "model");
  CHECK(read_file(recipe_beside(ends.assign.model_file)) == "recipe");
  CHECK(files_in(ends.node.path() / "workers").empty());

  ++ends.assign.attempt;
  ends.leases->open(ends.assign, "");
  NodeFiles another(ends.node_options());
  another.welcome(ends.elsewhere());
  const control::Assign lease = another.take_up(ends.assign);
  another.fetch_checkpoint(lease, kNever);
  CHECK(read_file(lease.checkpoint) == "three");
  CHECK(read_file(sidecar_path(lease.checkpoint)) == "reports");
  CHECK_FALSE(another.wrote_checkpoint(lease));
}

TEST_CASE("fused trials of one process have files of their own") {
  Ends ends;
  ends.leases->open(ends.assign, "");
  NodeFilesOptions second = ends.node_options();
  second.slot = 1;
  NodeFiles files(ends.node_options());
  NodeFiles others(second);
  files.welcome(ends.elsewhere());
  others.welcome(ends.elsewhere());
  const std::string own = files.take_up(ends.assign).checkpoint;
  CHECK(others.take_up(ends.assign).checkpoint != own);
}

TEST_CASE("a worker that has lost its lease replaces no checkpoint") {
  Ends ends;
  ends.leases->open(ends.assign, "");
  NodeFiles files(ends.node_options());
  files.welcome(ends.elsewhere());
  const control::Assign lease = files.take_up(ends.assign);
  write_file_atomic(lease.checkpoint, "good", false);
  CHECK(files.send_checkpoint(lease, kNever));
  control::Assign next = ends.assign;
  ++next.attempt;
  ends.leases->open(next, "");
  ends.leases->close_all_but({{next.trial, next.attempt}});
  write_file_atomic(lease.checkpoint, "late", false);
  CHECK_FALSE(files.send_checkpoint(lease, kNever));
  CHECK(read_file(ends.assign.checkpoint) == "good");
}

TEST_CASE("a lease's files are open to its holder alone") {
  Ends ends;
  ends.leases->open(ends.assign, "");
  NodeFiles files(ends.node_options());
  files.welcome(ends.elsewhere());
  const control::Assign lease = files.take_up(ends.assign);
  write_file_atomic(lease.checkpoint, "good", false);
  REQUIRE(files.send_checkpoint(lease, kNever));
  // Trial and attempt are easy to guess.
  for (const char* word : {"", "0", "00000000000000000000000000000000"}) {
    const TemporaryDirectory elsewhere;
    NodeFilesOptions options = ends.node_options();
    options.cache = elsewhere.path();
    NodeFiles stranger(options);
    stranger.welcome(ends.elsewhere());
    control::Assign guess = ends.assign;
    guess.capability = word;
    guess = stranger.take_up(guess);
    CHECK_THROWS_AS(stranger.fetch_checkpoint(guess, kNever), Error);
    CHECK_FALSE(fs::exists(guess.checkpoint));
    write_file_atomic(guess.checkpoint, "bad", false);
    CHECK_FALSE(stranger.send_checkpoint(guess, kNever));
  }
  CHECK(read_file(ends.assign.checkpoint) == "good");
}

TEST_CASE("fetched data that were damaged are fetched again") {
  Ends ends;
  const auto fetch = [&] {
    NodeFiles files(ends.node_options());
    files.welcome(ends.elsewhere());
    return files.data(ends.prepared.string(), kNever);
  };
  const fs::path path = fetch();
  REQUIRE(read_file(path) == "dddddddd");
  write_file_atomic(path, "dddXdddd", false);
  CHECK(fetch() == path);
  CHECK(read_file(path) == "dddddddd");
  const auto sent = ends.leases->traffic().sent;
  CHECK(fetch() == path);
  CHECK(ends.leases->traffic().sent == sent);
}

TEST_CASE("what killed coordinators left among the checkpoints is cleared") {
  TemporaryDirectory folder;
  SocketDirectory sockets;
  const fs::path left = folder.path() / "probe-4711";
  write_file_atomic(left, "word", false);
  LeaseFilesOptions options;
  options.listen.local = sockets.endpoint("files");
  options.checkpoints = folder.path();
  const LeaseFiles files(options);
  CHECK_FALSE(fs::exists(left));
  CHECK(files_in(folder.path()).size() == 1);  // its own
}

TEST_CASE("what killed workers left on a node is cleared by the next") {
  Ends ends;
  const fs::path left = ends.node.path() / "workers" / "1:2";
  fs::create_directories(left);
  write_file_atomic(left / "7-trial-7.checkpoint", "old", false);
  ends.leases->open(ends.assign, "");
  NodeFiles files(ends.node_options());
  files.welcome(ends.elsewhere());
  files.take_up(ends.assign);
  CHECK_FALSE(fs::exists(left));
}
