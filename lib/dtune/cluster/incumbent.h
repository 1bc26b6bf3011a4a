// The best trial of a search as it runs, and the checkpoints that it may be
// shipped from.
#pragma once

#include <filesystem>

#include "dtune/cluster/checkpoints.h"
#include "dtune/study/study.h"

namespace dtune {

// Follows incumbent(study) report by report, in O(1). Not thread-safe.
class Incumbent {
 public:
  // `study` outlives this.
  Incumbent(const Study& study, std::filesystem::path checkpoints);

  TrialId id() const { return best_; }  // 0: none
  Checkpoints& checkpoints() { return checkpoints_; }
  const Checkpoints& checkpoints() const { return checkpoints_; }

  // A loaded study: checkpoints of steps that are not to be shipped go.
  void recover();
  // A trial has reported. Returns the trial that was the best before and is not
  // any more; 0: there is none.
  TrialId note(const Trial& trial, const StepReport& report);
  // A trial has failed, and its reports may count no longer.
  void reconsider(const Trial& failed);
  // From all that was reported.
  void find();
  // What is held for the best, whatever was reported; until the next find().
  void appoint(TrialId trial);
  // The steps that may be shipped, those of the best trial and of each final
  // training, keep their checkpoints.
  void keep_step(const Trial& trial, int step);

 private:
  const Study& study_;
  Checkpoints checkpoints_;
  TrialId best_ = 0;
  double value_ = 0;
};

}  // namespace dtune
