// A study that trains nothing: trials whose behaviour is part of their point.
// Shared by the tests and by fake_worker.cc.
#pragma once

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtune/cluster/agent.h"
#include "dtune/study/trial_runner.h"
#include "dtune/study/tuner.h"

namespace dtune::toy {

// `mode` of a point; "lr" decides how good a trial is, "ms" how long a step
// takes.
inline const std::vector<std::string> kModes = {
    "learn",      // val_accuracy = lr (1 - 2^-step)
    "nan",        // NaN from step 2
    "throw",      // TrialFailure(diverged) at step 2
    "segv",       // the process dies at step 2
    "segv_once",  // likewise, in the first attempt alone
    "exit3",      // the process exits with 3 at step 2
    "hang",       // step 2 never ends and does not heed `stop`
    "wait_once",  // step 4 never ends in the first attempt, but heeds `stop`
    "oom",        // std::bad_alloc at step 2
    "invalid",    // said_invalid at step 1
    "silent",     // reports without the metric
    "straggle",   // rank 1 of trial 1 is evicted from its gang in step 2
    "late",       // its session takes three seconds to make
};

// An id that no other run of the tests on this machine uses.
std::string unique(const std::string& id);

SearchSpace space();
Point point(double lr, const std::string& mode = "learn", int ms = 0);

// A fifo study of `trials` trials and 5 steps; heartbeat 50 ms, lease 2 s, or
// what kPatient sets: then no machine that stalls costs a trial an attempt.
Recipe recipe(int trials);

// Sets a variable for this process and those of its study, while it lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};
inline constexpr const char* kPatient = "TOY_LEASE";  // in seconds
// A gang computes as slowly as its point says only while this file exists.
inline constexpr const char* kSlowWhile = "TOY_SLOW_WHILE";

Study study(const Recipe& recipe, const std::string& id);

// Proposes `points` in turn, then again from the first.
class ListSampler final : public Sampler {
 public:
  explicit ListSampler(std::vector<Point> points)
      : points_(std::move(points)) {}
  std::optional<Proposal> propose(const Study& study,
                                  int64_t /*decision*/) override {
    return Proposal{points_[study.trials.size() % points_.size()], "the next"};
  }

 private:
  std::vector<Point> points_;
};

std::unique_ptr<TrialRunner> make_runner();

// Options of an agent whose workers are `program worker`.
AgentOptions agent_options(const std::string& program,
                           const std::string& endpoint,
                           const std::string& study_id, int slots);

// The main of a test's process: the exit code of `work`, which gets the number
// of signals to end that have come; an error is printed.
int run_process(const std::function<int(const std::atomic<int>& stop)>& work);

}  // namespace dtune::toy
