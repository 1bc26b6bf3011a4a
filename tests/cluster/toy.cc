#include "cluster/toy.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <thread>

#include "cluster/toy_gang.h"
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"

namespace dtune::toy {
namespace {

using std::chrono::milliseconds;

std::atomic<int> g_stop{0};  // NOLINT: what a signal handler can reach

void on_signal(int) { ++g_stop; }

class ToySession final : public TrialSession {
 public:
  explicit ToySession(const TrialAssignment& assignment)
      : assignment_(assignment),
        mode_(std::get<std::string>(assignment.point.at("mode"))),
        lr_(*as_number(assignment.point.at("lr"))),
        pause_(milliseconds(
            static_cast<int64_t>(*as_number(assignment.point.at("ms"))))) {
    if (assignment.resume_step > 0) {
      steps_ = std::stoi(read_file(assignment.checkpoint));
    }
  }

  int steps_done() const override { return steps_; }
  uint64_t resident_bytes() const override { return 1000; }

  StepReport run_step(const std::atomic<bool>& stop) override {
    const int step = steps_ + 1;
    misbehave(step);
    const auto end = std::chrono::steady_clock::now() + pause_ + jitter(step);
    while (waits(step) || std::chrono::steady_clock::now() < end) {
      if (stop) throw StepStopped{};
      std::this_thread::sleep_for(milliseconds(1));
    }
    steps_ = step;
    if (!assignment_.checkpoint.parent_path().empty()) {
      write_file_atomic(assignment_.checkpoint, std::to_string(step), false);
    }
    StepReport report;
    report.step = step;
    report.seconds = 1e-3;
    const bool nan = mode_ == "nan" && step >= 2;
    report.metrics[mode_ == "silent" ? "train_loss" : "val_accuracy"] =
        nan ? std::numeric_limits<double>::quiet_NaN()
            : lr_ * (1 - std::exp2(-step));
    return report;
  }

  std::map<std::string, double> finish_final() override {
    write_file_atomic(assignment_.model_file,
                      std::to_string(assignment_.threads), false);
    return {{"test_accuracy", lr_ / 2}};
  }

 private:
  // Where a test sets it: some steps take longer, at random.
  milliseconds jitter(int step) const {
    const char* seed = std::getenv("TOY_DELAY_SEED");
    if (seed == nullptr) return milliseconds(0);
    Rng rng(mix_seed(
        {hash_text(seed), uint64_t(assignment_.trial), uint64_t(step)}));
    return milliseconds(rng.below(20));
  }

  bool waits(int step) const {
    return mode_ == "wait_once" && step == 4 && assignment_.attempt == 1;
  }

  void misbehave(int step) {
    if (mode_ == "invalid") {
      throw TrialFailure(Reason::said_invalid, "no such lr");
    }
    if (step != 2) return;
    if (mode_ == "throw") throw TrialFailure(Reason::diverged, "loss is nan");
    if (mode_ == "oom") throw std::bad_alloc();
    if (mode_ == "exit3") {
      [[maybe_unused]] const auto n = write(2, "about to exit\n", 14);
      _exit(3);
    }
    if (mode_ == "segv" || (mode_ == "segv_once" && assignment_.attempt == 1)) {
      std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would make a code of it
      raise(SIGSEGV);
    }
    while (mode_ == "hang") std::this_thread::sleep_for(milliseconds(100));
  }

  const TrialAssignment assignment_;
  const std::string mode_;
  const double lr_;
  const milliseconds pause_;
  int steps_ = 0;
};

class ToyRunner final : public TrialRunner {
 public:
  std::unique_ptr<TrialSession> start(
      const TrialAssignment& assignment) override {
    if (assignment.rank) return make_gang_session(assignment);
    if (assignment.point.at("mode") == Value("late")) {
      std::this_thread::sleep_for(std::chrono::seconds(3));
    }
    return std::make_unique<ToySession>(assignment);
  }
};

Parameter real(const std::string& name, double high) {
  Parameter p;
  p.name = p.key = name;
  p.high = high;
  return p;
}

}  // namespace

std::string unique(const std::string& id) {
  return id + "-" + std::to_string(getpid());
}

SearchSpace space() {
  Parameter mode = real("mode", 1);
  mode.kind = ParameterKind::categorical;
  for (const std::string& word : kModes) mode.choices.emplace_back(word);
  return SearchSpace({real("lr", 1), mode, real("ms", 1e6)});
}

Point point(double lr, const std::string& mode, int ms) {
  return {{"lr", lr}, {"mode", mode}, {"ms", double(ms)}};
}

Recipe recipe(int trials) {
  Recipe recipe;
  recipe.space = space();
  recipe.scheduler.kind = "fifo";
  recipe.budget.trials = trials;
  recipe.limits.heartbeat = milliseconds(50);
  const char* patient = std::getenv(kPatient);
  recipe.limits.lease =
      std::chrono::seconds(patient == nullptr ? 2 : std::atoi(patient));
  recipe.limits.grace = milliseconds(200);
  return recipe;
}

Study study(const Recipe& recipe, const std::string& id) {
  Study study;
  study.id = id;
  study.recipe = recipe;
  study.horizon = 5;
  study.created_ms = system_clock().wall_ms();
  return study;
}

std::unique_ptr<TrialRunner> make_runner() {
  return std::make_unique<ToyRunner>();
}

AgentOptions agent_options(const std::string& program,
                           const std::string& endpoint,
                           const std::string& study_id, int slots) {
  AgentOptions options;
  options.endpoint = endpoint;
  options.study_id = study_id;
  options.node = "here";
  options.slots = slots;
  options.worker_argv = {program, "worker"};
  return options;
}

int run_process(const std::function<int(const std::atomic<int>& stop)>& work) {
  std::signal(SIGTERM, on_signal);
  std::signal(SIGINT, on_signal);
  try {
    return work(g_stop);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return exit_code(e.kind());
  }
}

}  // namespace dtune::toy
