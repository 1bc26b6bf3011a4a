// A study whose agents join over the network, as separate processes.
//
//   cluster_remote_peer coordinator FOLDER STUDY ADDRESS PORT TRIALS MODE
//   cluster_remote_peer agent ENDPOINT TOKENFILE STATE NODE PATIENCE
//
// `coordinator` runs, or resumes, a study in FOLDER/study.db; it writes
// FOLDER/token1 to token3, then the ports to FOLDER/endpoint, and everything
// that it has to say to FOLDER/notices. TOKENFILE may be "none"; PATIENCE is
// in seconds. MODE is of the first trial (toy.h); the others learn.
#include <cstdio>
#include <fstream>
#include <string>

#include "cluster/local_study.h"
#include "cluster/toy.h"

#include "dtune/base/file.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"

namespace {

using namespace dtune;  // NOLINT: a program of the tests
namespace fs = std::filesystem;

int coordinate(char** argv, const std::atomic<int>& stop) {
  const fs::path folder = argv[2];
  const std::string address = argv[4];
  const int port = std::stoi(argv[5]);
  const auto endpoint = [&](int of) {
    return "tcp://" + address + ":" + std::to_string(of);
  };
  EnrolmentServer access({.keys = read_or_make_secret_key(folder / "dtune.key"),
                          .allowed_file = folder / "agents",
                          .study_id = argv[3]});
  for (const char* name : {"token1", "token2", "token3"}) {
    write_private_file(folder / name, access.make_token() + "\n", true);
  }
  const int trials = std::stoi(argv[6]);
  std::vector<Point> points(size_t(trials), toy::point(0.5, "learn", 5));
  points[0] = toy::point(0.5, argv[7], 5);
  toy::LocalStudy local(folder, argv[3], 1, toy::recipe(trials), points);
  local.options.ensure_local_agent = nullptr;
  local.options.remote = endpoint(port);
  local.options.security = access.security();
  std::ofstream notices(folder / "notices", std::ios::app);
  local.options.take_notices = [&] {
    notices << local.sink.notices << std::flush;
    local.sink.notices.clear();
    return access.take_notices();
  };
  local.at_start = [&](const Coordinator& coordinator) {
    write_file_atomic(folder / "endpoint", coordinator.remote_endpoint(),
                      false);
  };
  const StudyOutcome outcome = local.run(stop);
  notices << local.sink.notices << to_string(outcome.state) << ": "
          << outcome.why << "\n"
          << std::flush;
  return outcome.state == StudyState::finished ? 0 : 3;
}

int serve(char** argv, const std::atomic<int>& stop) {
  JoinOptions join;
  join.endpoint = argv[2];
  if (std::string(argv[3]) != "none") join.token = read_file(argv[3]);
  join.state = argv[4];
  join.node = argv[5];
  join.patience = std::chrono::seconds(std::stoi(argv[6]));
  AgentOptions options = toy::agent_options(DTUNE_FAKE_WORKER, argv[2], "", 1);
  options.curve = join_cluster(join, stop);
  options.node = join.node;
  options.rejoin = std::chrono::seconds(60);
  return run_agent(options, stop);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  return toy::run_process([&](const std::atomic<int>& stop) {
    if (what == "coordinator" && argc == 8) return coordinate(argv, stop);
    if (what == "agent" && argc == 7) return serve(argv, stop);
    std::fprintf(stderr, "see the head of remote_peer.cc\n");
    return 2;
  });
}
