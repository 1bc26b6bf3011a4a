// The best trials of a search as it runs, and the checkpoints that one of them
// may be shipped from.
#pragma once

#include <filesystem>
#include <vector>

#include "dtune/cluster/checkpoints.h"
#include "dtune/study/study.h"

namespace dtune {

// Follows incumbent(study) report by report, in O(1). Not thread-safe.
class Incumbent {
 public:
  // Trials that keep what they may be shipped from: the winner of a search is
  // not always the trial with the best report (winner.h), but seldom one far
  // from it. Another has to be trained again.
  static constexpr size_t kContenders = 3;

  // `study` outlives this.
  Incumbent(const Study& study, std::filesystem::path checkpoints);

  TrialId id() const { return best_.empty() ? 0 : best_.front().trial; }
  bool is_contender(TrialId trial) const;
  Checkpoints& checkpoints() { return checkpoints_; }
  const Checkpoints& checkpoints() const { return checkpoints_; }

  // A loaded study: checkpoints of steps that are not to be shipped go.
  void recover();
  // A trial has reported. Returns the trial that was a contender before and is
  // not any more; 0: there is none.
  TrialId note(const Trial& trial, const StepReport& report);
  // A trial has failed, and its reports may count no longer.
  void reconsider(const Trial& failed);
  // From all that was reported.
  void find();
  // What is held for the best, whatever was reported, and for the only
  // contender; until the next find(). Returns those that were contenders.
  std::vector<TrialId> appoint(TrialId trial);
  // Takes the last contender off the list; 0: only the best is left.
  TrialId give_up_last();
  // The steps that may be shipped, those of contenders and of each final
  // training, keep their checkpoints.
  void keep_step(const Trial& trial, int step);

 private:
  struct Contender {
    TrialId trial = 0;
    double value = 0;
  };
  void insert(const Contender& contender);
  std::vector<TrialId> replace(std::vector<Contender> best);

  const Study& study_;
  Checkpoints checkpoints_;
  std::vector<Contender> best_;  // first; ties go to the earlier trial
};

}  // namespace dtune
