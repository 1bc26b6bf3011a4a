// What every session of a CNN trial does around its training, be it of one
// process or of a gang's member: steps and their reports, progress, going on
// from a checkpoint, the final test and the model file.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <ATen/ATen.h>

#include "dtune/base/clock.h"
#include "dtune/data/prepared.h"
#include "dtune/nn/network.h"
#include "dtune/study/metrics.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/assignment.h"

namespace dtune {

class StepSession : public TrialSession {
 public:
  int steps_done() const final { return steps_; }
  StepReport run_step(const std::atomic<bool>& stop) final;
  StepProgress progress() const final {
    return {fraction_, rate_, 0, together_};
  }
  std::map<std::string, double> finish_final() final;

 protected:
  // Throws as check_splits and find_device.
  StepSession(TrialAssignment assignment,
              std::shared_ptr<const PreparedData> data);

  // --- What a kind of training brings.

  // Trains step() between begin_step() and finish_step().
  virtual StepReport perform_step(const std::atomic<bool>& stop) = 0;
  // Back to the end of the last whole step, after one that was broken off.
  virtual void restore() = 0;
  // Where step() ends, in samples seen since its training began.
  virtual int64_t end_of_step() const { return plan_.end_of(step()); }
  // The final test, by way of write_final(). Where it cannot be done here,
  // finish_final() returns nothing.
  virtual bool can_test() { return true; }
  virtual std::map<std::string, double> test() = 0;

  // --- What it uses.

  const TrialAssignment& assignment() const { return assignment_; }
  const std::shared_ptr<const PreparedData>& data() const { return data_; }
  const Normalization& normalization() const { return normalization_; }
  at::Device device() const { return device_; }
  const std::string& where() const { return where_; }
  const StepPlan& plan() const { return plan_; }
  int64_t epoch_samples() const { return epoch_samples_; }
  int step() const { return steps_ + 1; }  // that is being trained

  // Goes on from a checkpoint's report, of the step that the assignment names,
  // one before it, or the next one; with `later` of any step.
  // The report of the next is what the first run_step returns. Throws
  // Error(data) otherwise.
  void resume(StepReport report, bool later);
  // Another step has been reached without this member.
  void set_steps(int steps) { steps_ = steps; }
  void begin_step();
  // Samples seen since the start of the training, for progress(): when the step
  // begins, and then.
  void start_progress(int64_t position);
  void note_position(int64_t position);
  // StepProgress's.
  std::atomic<int>& together() { return together_; }
  double step_seconds() const;
  StepReport finish_step(StepReport report);

  // Throws TrialFailure(diverged) where an answer is no finite number.
  Predictions predict(Network& network, Split split,
                      const std::atomic<bool>& stop) const;
  // Chooses the threshold that the recipe asks for, tests the network and
  // writes the model; returns the test's metrics.
  std::map<std::string, double> write_final(Network& network) const;

 private:
  TrialAssignment assignment_;
  std::shared_ptr<const PreparedData> data_;
  std::string where_;
  Normalization normalization_;
  at::Device device_;
  int64_t epoch_samples_;
  StepPlan plan_;

  int steps_ = 0;
  bool broken_off_ = false;  // inside a step
  MonoTime began_{};         // the step
  int64_t first_ = 0;        // position at its start
  std::atomic<double> fraction_ = 0;
  std::atomic<double> rate_ = 0;  // samples a second
  std::atomic<int> together_ = 1;
  std::optional<StepReport> unheard_;  // of a step that is done already
  std::map<std::string, double> last_;
  std::optional<std::map<std::string, double>> final_metrics_;
};

}  // namespace dtune
