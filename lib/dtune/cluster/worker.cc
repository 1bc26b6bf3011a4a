#include "dtune/cluster/worker.h"

#include <algorithm>
#include <ctime>
#include <future>
#include <utility>
#include <vector>

#include <unistd.h>

#include "dtune/cluster/child_process.h"
#include "dtune/cluster/compute.h"
#include "dtune/cluster/log.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/batches.h"
#include "dtune/comm/socket.h"

namespace dtune {
namespace {

// CPU time of this process without this thread, which only passes messages.
uint64_t compute_milliseconds() {
  const auto time_of = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return int64_t{1000} * time.tv_sec + time.tv_nsec / 1'000'000;
  };
  return static_cast<uint64_t>(std::max<int64_t>(
      0, time_of(CLOCK_PROCESS_CPUTIME_ID) - time_of(CLOCK_THREAD_CPUTIME_ID)));
}

// The worker's poll loop: messages on one side, the compute thread on the
// other.
class Worker {
 public:
  Worker(const WorkerOptions& options, const RunnerFactory& make_runner)
      : slot_(options.slot),
        seats_(options.seats),
        socket_(context_, Socket::Kind::dealer),
        compute_(options, make_runner, [this] { wakeup_.notify(); }) {
    socket_.connect(options.endpoint);
    outbox_.push_back(
        encode(control::SlotUp{slot_, getpid(), options.keys.public_key}));
  }

  void run(const std::atomic<int>& stop) {
    PollSet polls;
    while (stop == 0 && !stopped_) {
      flush();
      polls.clear();
      polls.add(socket_);
      polls.add(wakeup_.descriptor());
      const auto now = system_clock().now();
      if (now >= next_progress_) {
        send_progress();
        next_progress_ = now + heartbeat_;
        continue;
      }
      polls.wait(next_progress_ - now);
      if (polls.ready(1)) wakeup_.drain();
      while (auto frames = socket_.receive()) {
        for (const std::string& frame : *frames) receive(frame);
      }
      for (const control::Message& message : compute_.take_messages()) {
        outbox_.push_back(encode(message));
      }
    }
  }

 private:
  void receive(const std::string& frame) {
    try {
      dispatch(decode(frame));
    } catch (const Error& e) {
      log_warning("slot {}: {}", slot_, e.what());
    }
  }

  void dispatch(control::Message message) {
    if (auto* ack = std::get_if<control::Ack>(&message)) {
      compute_.acknowledged(*ack);
    } else if (auto* welcome = std::get_if<control::Welcome>(&message)) {
      heartbeat_ = Duration(welcome->heartbeat_ns);
      // The connection may have been another; what was under way is repeated.
      for (const control::Report& report : compute_.unacknowledged()) {
        outbox_.push_back(encode(report));
      }
      compute_.post(std::move(*welcome));
    } else if (auto* assign = std::get_if<control::Assign>(&message)) {
      compute_.post(std::move(*assign));
    } else if (auto* extend = std::get_if<control::Extend>(&message)) {
      compute_.post(*extend);
    } else if (auto* pause = std::get_if<control::Pause>(&message)) {
      compute_.post(*pause);
    } else if (auto* cut = std::get_if<control::Cut>(&message)) {
      compute_.post(*cut);
    } else if (std::holds_alternative<control::Stop>(message)) {
      stopped_ = true;
    }
  }

  void send_progress() {
    control::Progress progress = compute_.progress();
    progress.resident_bytes = resident_bytes(getpid());
    progress.activity += compute_milliseconds();
    // The processor's time is that of all seats: a step that does not move on
    // has no part in it.
    const bool inside = 0 < progress.fraction && progress.fraction < 1;
    if (seats_ > 1 && inside && progress.fraction == fraction_) {
      progress.activity = activity_;
    }
    fraction_ = progress.fraction;
    activity_ = progress.activity;
    outbox_.push_back(encode(progress));
  }

  // A full queue or an agent that is about to come back: kept and tried again.
  void flush() {
    send_batches(outbox_, "",
                 [this](const Frames& batch) { return socket_.send(batch); });
  }

  const int slot_;
  const int seats_;
  SocketContext context_;
  Socket socket_;
  Wakeup wakeup_;
  Compute compute_;
  Frames outbox_;
  Duration heartbeat_{1'000'000'000};
  MonoTime next_progress_ = system_clock().now();
  double fraction_ = 0;    // as it was said last
  uint64_t activity_ = 0;  // likewise
  bool stopped_ = false;
};

int run_seat(const WorkerOptions& options, const RunnerFactory& make_runner,
             const std::atomic<int>& stop) {
  try {
    Worker worker(options, make_runner);
    worker.run(stop);
    return kExitOk;
  } catch (const Error& e) {
    log_error("worker {}: {}", options.slot, e.what());
    return exit_code(e.kind());
  }
}

// The first on this thread, each other on one of its own.
int run_seats(WorkerOptions options, const RunnerFactory& make_runner,
              const std::atomic<int>& stop) {
  options.warm_bytes /= static_cast<uint64_t>(options.seats);
  std::vector<std::future<int>> others;
  for (int seat = 1; seat < options.seats; ++seat) {
    WorkerOptions other = options;
    other.slot += seat;
    others.push_back(std::async(std::launch::async, [=, &make_runner, &stop] {
      return run_seat(other, make_runner, stop);
    }));
  }
  int code = run_seat(options, make_runner, stop);
  for (std::future<int>& other : others) code = std::max(code, other.get());
  return code;
}

}  // namespace

int run_worker(const WorkerOptions& options, const RunnerFactory& make_runner,
               const std::atomic<int>& stop) {
  // Orphans of commands come to us, not to init, so that we can end them.
  become_subreaper();
  try {
    WorkerOptions own = options;
    if (own.keys.secret_key.empty() && has_curve()) {
      own.keys = generate_curve_keys();
    }
    return run_seats(own, make_runner, stop);
  } catch (const Error& e) {
    log_error("worker {}: {}", options.slot, e.what());
    return exit_code(e.kind());
  }
}

}  // namespace dtune
