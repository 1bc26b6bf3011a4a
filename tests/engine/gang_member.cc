// A member of a gang as a process that can be killed: gang_faults_test starts
// it. Arguments: gang, member, endpoint, prepared data, folder, steps, and
// where it raises which signal: first step, fraction of it, signal (0: none); and
// the mode (parallel_of).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "gang_recipe.h"

using namespace dtune;

namespace {

struct Arguments {
  std::string gang;
  int member;
  std::string endpoint;
  std::filesystem::path data;
  std::filesystem::path folder;
  int steps;
  int signal_step;
  double signal_fraction;
  int signal;
  std::string mode;
};

TrialAssignment assignment_of(const Arguments& arguments) {
  TrialAssignment assignment = gang_assignment(arguments.steps, arguments.mode);
  assignment.prepared_data = arguments.data;
  assignment.checkpoint = arguments.folder / "trial-3.safetensors";
  assignment.model_file =
      arguments.folder / ("model." + std::to_string(arguments.member));
  assignment.rank =
      RankInfo{.gang = arguments.gang,
               .member = arguments.member,
               .members = gang_members(assignment.recipe.parallel),
               .endpoint = arguments.endpoint};
  return assignment;
}

// Raises a signal in the middle of the step that runs while it lives, unless
// its thread has no turn before the step ends.
class Trap {
 public:
  Trap(const TrialSession& session, double fraction, int signal)
      : thread_([&session, fraction, signal, this] {
          while (!done_ && session.progress().fraction < fraction) {
            std::this_thread::yield();  // rounds are short
          }
          if (done_) return;
          raised_ = true;
          std::raise(signal);
        }) {}
  ~Trap() {
    done_ = true;
    thread_.join();
  }
  bool raised() const { return raised_; }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

 private:
  std::atomic<bool> done_ = false;
  std::atomic<bool> raised_ = false;
  std::thread thread_;
};

int run(const Arguments& arguments) {
  const auto runner = load_engine().make_runner(1);
  const auto session = runner->start(assignment_of(arguments));
  const std::atomic<bool> stop = false;
  bool raises = arguments.signal != 0;
  while (session->steps_done() < arguments.steps) {
    std::optional<Trap> trap;
    if (raises && session->steps_done() + 1 >= arguments.signal_step) {
      trap.emplace(*session, arguments.signal_fraction, arguments.signal);
    }
    session->run_step(stop);
    raises = raises && !(trap && trap->raised());
  }
  session->finish_final();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 11) return 2;
  try {
    return run({argv[1], std::atoi(argv[2]), argv[3], argv[4], argv[5],
                std::atoi(argv[6]), std::atoi(argv[7]), std::atof(argv[8]),
                std::atoi(argv[9]), argv[10]});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "member %s: %s\n", argv[2], error.what());
    return 1;
  }
}
