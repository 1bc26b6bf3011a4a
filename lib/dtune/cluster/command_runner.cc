#include "dtune/cluster/command_runner.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include "dtune/base/clock.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/command_lines.h"
#include "dtune/cluster/out_of_memory.h"
#include "dtune/cluster/worker.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;

constexpr int kInvalidExitCode = 42;
constexpr size_t kTailBytes = 2000;
constexpr int kPollMs = 20;  // how soon a stop is noticed

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0;
}

SpawnOptions spawn_options(const TrialAssignment& assignment, int steps_done) {
  const CommandSpec& command = *assignment.recipe.command;
  SpawnOptions spawn;
  spawn.argv = command_words(assignment.recipe, assignment.point);
  spawn.directory = command.directory.empty() ? assignment.recipe.directory
                                              : command.directory;
  spawn.environment = command.environment;
  // Else Python keeps what it prints to a pipe until it ends.
  spawn.environment.try_emplace("PYTHONUNBUFFERED", "1");
  // Else it takes all cores, as the programs in the other slots do. A slot with
  // a GPU is no core.
  if (!is_set("OMP_NUM_THREADS") && !is_set("DTUNE_SLOT_DEVICE")) {
    spawn.environment.try_emplace("OMP_NUM_THREADS",
                                  std::to_string(assignment.threads));
  }
  spawn.environment["DTUNE_TRIAL"] = std::to_string(assignment.trial);
  spawn.environment["DTUNE_ATTEMPT"] = std::to_string(assignment.attempt);
  spawn.environment["DTUNE_STUDY"] = assignment.study_id;
  spawn.environment["DTUNE_STEP"] = std::to_string(steps_done);
  spawn.environment["DTUNE_SEED"] = std::to_string(assignment.seed);
  spawn.environment["DTUNE_CHECKPOINT"] = assignment.checkpoint.string();
  for (const auto& [name, value] : point_environment(assignment.point)) {
    spawn.environment[name] = value;
  }
  return spawn;
}

// The program has gone on from a checkpoint that has more steps than were
// recorded: it was ended after it had saved a step and before that was heard.
struct CheckpointAhead {};

// Lets a stopped process group go on. A process that is forked meanwhile may
// stay stopped: Linux keeps the SIGSTOP for it, and drops a SIGCONT that is
// ignored, as it is by default. So SIGCONT is sent again, at doubling intervals.
class Continuation {
 public:
  explicit Continuation(Child& child) : child_(child) { send(); }
  void repeat() {
    if (system_clock().now() >= next_) send();
  }

 private:
  void send() {
    child_.signal_group(SIGCONT);
    next_ = system_clock().now() + interval_;
    interval_ *= 2;
  }

  Child& child_;
  Duration interval_ = milliseconds(kPollMs);
  MonoTime next_;
};

// A program in the middle of its work. Between steps its group is stopped, so
// that it neither runs ahead nor costs a core while another trial has the slot.
class CommandSession final : public TrialSession {
 public:
  explicit CommandSession(const TrialAssignment& assignment)
      : assignment_(assignment),
        objective_(assignment.recipe.objective.metric),
        steps_done_(assignment.resume_step),
        resumed_(std::filesystem::exists(assignment.checkpoint)),
        child_(
            std::make_unique<Child>(spawn_options(assignment, steps_done_))) {
    child_->signal_group(SIGSTOP);
  }
  ~CommandSession() override;

  int steps_done() const override { return steps_done_; }
  StepReport run_step(const std::atomic<bool>& stop) override;
  StepReport next_step(const std::atomic<bool>& stop);
  uint64_t resident_bytes() const override {
    return dtune::resident_bytes(child_->pid()) + (uint64_t{1} << 16);
  }
  std::map<std::string, double> finish_final() override { return {}; }
  // Any tick of CPU time and any output tell that the program works.
  StepProgress progress() const override {
    constexpr double kMuch = 1e5;
    return {.activity = output_ + uint64_t(kMuch * descendants_cpu_seconds())};
  }

 private:
  std::optional<StepReport> read_report(const std::atomic<bool>& stop);
  std::optional<StepReport> take_line(const std::string& line);
  StepReport make_report(int step);
  std::string without_objective() const;
  std::string why_out_of_order(int step) const;
  StepReport on_exit(const ExitStatus& status);
  bool may_be_ahead() const;
  void start_over();
  void read_errors();
  void wait_for_output();
  [[noreturn]] void suspend();
  void note_output() { output_ += 1000; }
  void keep_tail(const std::string& text);
  [[noreturn]] void fail(Reason reason, const std::string& text,
                         const ExitStatus& status);

  const TrialAssignment assignment_;
  const std::string objective_;
  int steps_done_;
  bool resumed_;  // from a checkpoint, and has told no step since
  OutOfMemoryKills kernel_kills_;
  std::unique_ptr<Child> child_;
  LineBuffer lines_;
  std::map<std::string, double> metrics_;  // of the step under way
  StepReport last_report_;
  MonoTime step_began_;
  std::string tail_;                  // what it wrote last, reports apart
  std::atomic<uint64_t> output_ = 0;  // times that it wrote, a thousandfold
};

CommandSession::~CommandSession() {
  child_->signal_group(SIGCONT);
  const Duration grace = assignment_.recipe.limits.grace;
  // One that has done its last step may put its things in order.
  const bool done = steps_done_ >= assignment_.horizon;
  if (!(done && child_->wait(grace))) {
    child_->signal_group(SIGTERM);
    child_->wait(grace);
  }
  child_.reset();
  // Whatever left the process group.
  kill_adopted({"DTUNE_STUDY=" + assignment_.study_id,
                "DTUNE_TRIAL=" + std::to_string(assignment_.trial)});
}

StepReport CommandSession::run_step(const std::atomic<bool>& stop) {
  step_began_ = system_clock().now();
  try {
    return next_step(stop);
  } catch (const CheckpointAhead&) {
    start_over();
    return next_step(stop);
  }
}

StepReport CommandSession::next_step(const std::atomic<bool>& stop) {
  Continuation continuation(*child_);
  while (true) {
    const auto status = child_->status();  // before reading: then all is there
    read_errors();
    if (auto report = read_report(stop)) {
      if (steps_done_ < assignment_.horizon) child_->signal_group(SIGSTOP);
      return *report;
    }
    if (status) return on_exit(*status);
    kernel_kills_.look(system_clock().now());
    if (stop) suspend();
    wait_for_output();
    continuation.repeat();
  }
}

void CommandSession::suspend() {
  child_->signal_group(SIGSTOP);
  throw StepStopped{};
}

bool CommandSession::may_be_ahead() const {
  return resumed_ && !assignment_.checkpoint.empty();
}

// Without its checkpoint it begins with step 1; what is recorded of the steps
// that it repeats stays.
void CommandSession::start_over() {
  std::fputs(
      "dtune: the checkpoint is ahead of the recorded steps; starting "
      "again without it\n",
      stderr);
  child_.reset();
  kill_adopted({"DTUNE_STUDY=" + assignment_.study_id,
                "DTUNE_TRIAL=" + std::to_string(assignment_.trial)});
  std::error_code ignored;
  std::filesystem::remove(assignment_.checkpoint, ignored);
  resumed_ = false;
  lines_ = {};
  metrics_.clear();
  tail_.clear();
  child_ = std::make_unique<Child>(spawn_options(assignment_, steps_done_));
}

// A program may write faster than this reads: its output need not end before it
// is stopped.
std::optional<StepReport> CommandSession::read_report(
    const std::atomic<bool>& stop) {
  for (int reads = 0;; ++reads) {
    while (auto line = lines_.next()) {
      if (auto report = take_line(*line)) return report;
    }
    if (stop && reads > 0) suspend();
    std::string text;
    child_->read_out(text);
    if (text.empty()) break;
    note_output();
    std::fputs(text.c_str(), stderr);  // to the agent's log
    lines_.add(text);
  }
  if (!child_->status()) return std::nullopt;
  const auto line = lines_.next(/*rest=*/true);
  return line ? take_line(*line) : std::nullopt;
}

std::optional<StepReport> CommandSession::take_line(const std::string& line) {
  auto parsed = parse_command_line(line, objective_);
  if (!parsed) {
    keep_tail(line + "\n");
    return std::nullopt;
  }
  if (parsed->invalid) {
    throw TrialFailure(Reason::said_invalid,
                       "the program has reported its point as invalid: " +
                           (parsed->why.empty() ? "(no reason)" : parsed->why));
  }
  const int step = parsed->step.value_or(steps_done_ + 1);
  if (step <= steps_done_) return std::nullopt;  // it does an old step again
  if (step > steps_done_ + 1 && may_be_ahead()) throw CheckpointAhead();
  if (step > steps_done_ + 1) {
    throw TrialFailure(Reason::bad_output, why_out_of_order(step));
  }
  metrics_.merge(parsed->metrics);
  for (const auto& [name, value] : parsed->metrics) metrics_[name] = value;
  if (!metrics_.contains(objective_)) return std::nullopt;
  return make_report(step);
}

// "val_loss and acc, but not loss": most likely the objective's name is wrong.
std::string CommandSession::without_objective() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics_) names.push_back(name);
  return fmt::format("{}, but not {}", fmt::join(names, ", "), objective_);
}

std::string CommandSession::why_out_of_order(int step) const {
  if (step == steps_done_ + 2 && !metrics_.empty()) {
    return fmt::format("step {} was reported with {} (the objective's metric)",
                       steps_done_ + 1, without_objective());
  }
  return fmt::format(
      "reported step {} after step {} (steps are counted 1, 2, 3, ...; without "
      "step= every report is the next)",
      step, steps_done_);
}

StepReport CommandSession::make_report(int step) {
  steps_done_ = step;
  resumed_ = false;
  last_report_ = {};
  last_report_.step = step;
  last_report_.metrics = std::exchange(metrics_, {});
  const auto now = system_clock().now();
  last_report_.seconds = to_seconds(now - step_began_);
  return last_report_;
}

StepReport CommandSession::on_exit(const ExitStatus& status) {
  if (status.exit_code == kInvalidExitCode) {
    fail(Reason::said_invalid, "the program has reported its point as invalid",
         status);
  }
  // A shell says so of the program that it has run for the last.
  const bool killed =
      status.signal == SIGKILL || status.exit_code == 128 + SIGKILL;
  if (killed && kernel_kills_.recent()) {
    fail(Reason::out_of_memory, "the kernel killed the program: out of memory",
         status);
  }
  if (status.signal != 0) {
    fail(Reason::crashed, "the program was ended by " + describe(status),
         status);
  }
  if (status.exit_code != 0) {
    fail(Reason::bad_output, "the program ended with " + describe(status),
         status);
  }
  if (last_report_.step == 0 && may_be_ahead()) throw CheckpointAhead();
  if (last_report_.step == 0) {
    fail(Reason::bad_output,
         fmt::format(
             "the program ended without a line like 'step={} {}=0.5' "
             "on its standard output{}",
             steps_done_ + 1, objective_,
             metrics_.empty() ? "" : "; it reported " + without_objective()),
         status);
  }
  // Its last step was reported when it did not look like the last.
  StepReport report = last_report_;
  report.last = true;
  return report;
}

void CommandSession::fail(Reason reason, const std::string& text,
                          const ExitStatus& status) {
  std::string tail = tail_;
  while (tail.ends_with('\n')) tail.pop_back();
  const std::string detail =
      tail.empty() ? text : text + "; it last wrote: " + tail;
  throw CommandExit(reason, detail, status.exit_code, status.signal);
}

void CommandSession::read_errors() {
  std::string text;
  child_->read_err(text);
  if (text.empty()) return;
  note_output();
  std::fputs(text.c_str(), stderr);
  keep_tail(text);
}

void CommandSession::keep_tail(const std::string& text) {
  tail_ += text;
  if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

void CommandSession::wait_for_output() {
  std::array<pollfd, 3> items = {pollfd{child_->out(), POLLIN, 0},
                                 pollfd{child_->err(), POLLIN, 0},
                                 pollfd{child_->exit_descriptor(), POLLIN, 0}};
  poll(items.data(), items.size(), kPollMs);
}

class CommandRunner final : public TrialRunner {
 public:
  // What a program leaves behind comes to this process, which ends it.
  CommandRunner() { become_subreaper(); }

  std::unique_ptr<TrialSession> start(
      const TrialAssignment& assignment) override {
    DTUNE_CHECK(assignment.recipe.command.has_value());
    try {
      return std::make_unique<CommandSession>(assignment);
    } catch (const TrialFailure&) {
      throw;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::config) throw;
      // 127 as a shell would say: it is not tried again.
      throw CommandExit(Reason::bad_output, e.what(), 127, 0);
    }
  }
};

}  // namespace

std::unique_ptr<TrialRunner> make_command_runner() {
  return std::make_unique<CommandRunner>();
}

}  // namespace dtune
