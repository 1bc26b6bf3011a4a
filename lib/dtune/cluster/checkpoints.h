// The coordinator's checkpoint files: one of each trial, replaced after every
// step, and those of the steps that may be shipped.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "dtune/study/trial.h"

namespace dtune {

// Not thread-safe. Files that cannot be removed or linked are left as they are:
// a step that is not there is trained again.
class Checkpoints {
 public:
  // "": there are none, as for studies of commands without a folder.
  explicit Checkpoints(std::filesystem::path folder);

  // Makes the folder. Throws Error(temporary).
  void make_folder() const;

  std::filesystem::path of(TrialId trial) const;
  std::filesystem::path of_step(TrialId trial, int step) const;
  bool holds_step(TrialId trial, int step) const;

  // The step becomes the one that is kept of the trial, in place of another.
  // `linked` by the worker already, or here: of what the checkpoint holds.
  void keep(TrialId trial, int step);
  // A step that was reported and is not to be kept.
  void pass_over(TrialId trial, int step);
  // Nothing is kept of the trial any more; its checkpoint stays.
  void forget_step(TrialId trial);
  // The trial's checkpoint and what lies beside it, kept steps apart.
  void remove(TrialId trial);

  // What all files take on the disk; links to one file count once. O(files).
  int64_t bytes() const;

  // A loaded study: these steps are kept, files of others are removed, and
  // temporaries.
  using Steps = std::map<TrialId, int>;
  void recover(const Steps& kept);
  // What writers that were killed have left; call it while none writes.
  void remove_temporaries() const;

  // `to` goes on from a step of `from`: gets the checkpoint of that step. False
  // where there is none.
  bool copy(TrialId from, int step, bool from_kept, TrialId to);
  // The kept step of one trial becomes that of another, too.
  void share_step(TrialId from, int step, TrialId to);

 private:
  const std::filesystem::path folder_;
  Steps kept_;
};

}  // namespace dtune
