// A member of a gang as a process that can be killed: gang_faults_test starts
// it. Arguments: gang, member, endpoint, prepared data, folder, steps, and
// where it raises which signal: first step, fraction of it, signal (0: none); the
// mode (parallel_of); and, to raise it while it sends to other ranks, in which
// message from there on (-1: at once), after how much of that.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "gang_recipe.h"
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

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
  int message;
  double share;  // of its bytes; 1: it is sent
};

// Armed: raised in writev() below.
struct SendTrap {
  std::atomic<int> messages = -1;  // to be sent before; -1: not armed
  double share = 0;
  int signal = 0;
};
SendTrap send_trap;

bool is_socket(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

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

// Raises a signal in the middle of the step that runs while it lives, or arms
// send_trap there, unless its thread has no turn before the step ends.
class Trap {
 public:
  Trap(const TrialSession& session, const Arguments& arguments)
      : thread_([&session, &arguments, this] {
          while (!done_ &&
                 session.progress().fraction < arguments.signal_fraction) {
            std::this_thread::yield();  // rounds are short
          }
          if (done_) return;
          raised_ = true;
          if (arguments.message < 0) {
            std::raise(arguments.signal);
            return;
          }
          send_trap.share = arguments.share;
          send_trap.signal = arguments.signal;
          send_trap.messages = arguments.message;
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
      trap.emplace(*session, arguments);
    }
    session->run_step(stop);
    raises = raises && !(trap && trap->raised());
  }
  session->finish_final();
  return 0;
}

}  // namespace

// Gloo sends by this alone, a message each time where the socket takes it.
extern "C" __attribute__((visibility("default"))) ssize_t writev(
    int descriptor, const iovec* parts, int count) {
  const bool here = send_trap.messages >= 0 && is_socket(descriptor) &&
                    send_trap.messages-- == 0;
  if (!here) return ::syscall(SYS_writev, descriptor, parts, count);
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  }
  size_t first = bytes.size();
  if (send_trap.share < 1) {
    const double share = send_trap.share * static_cast<double>(first);
    first = std::min(first - 1, static_cast<size_t>(share));
  }
  const ssize_t sent = first > 0 ? ::write(descriptor, bytes.data(), first) : 0;
  std::raise(send_trap.signal);
  return sent != 0 ? sent : ::syscall(SYS_writev, descriptor, parts, count);
}

int main(int argc, char** argv) {
  if (argc != 13) return 2;
  try {
    return run({argv[1], std::atoi(argv[2]), argv[3], argv[4], argv[5],
                std::atoi(argv[6]), std::atoi(argv[7]), std::atof(argv[8]),
                std::atoi(argv[9]), argv[10], std::atoi(argv[11]),
                std::atof(argv[12])});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "member %s: %s\n", argv[2], error.what());
    return 1;
  }
}
