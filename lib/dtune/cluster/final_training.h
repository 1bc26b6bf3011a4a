// The training of the model to keep, after the search: which trials it takes,
// which step of which is shipped, and why.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dtune/cluster/incumbent.h"
#include "dtune/cluster/protocol.h"
#include "dtune/cluster/records.h"
#include "dtune/store/final_result.h"

namespace dtune {

struct FinalTrainingOptions {
  std::filesystem::path model_file;  // "": no model is kept
  int horizon = 0;                   // steps; 0: by the recipe
};

// First all trials of trials() are trained to their horizon; then choose() says
// which model is shipped, and one more lease of that trial tests and writes it.
// Not thread-safe; leases are given by the caller. References outlive this.
class FinalTraining {
 public:
  FinalTraining(Study& study, Records& records, Incumbent& best,
                const Clock& clock, FinalTrainingOptions options);

  bool wanted() const;
  // Why the best trial is the best, where not by the search's own reports.
  void set_winner(const std::string& why) { winner_ = why; }
  const std::string& winner() const { return winner_; }
  int horizon() const;  // in steps
  // It is what the search does with the same point and seed.
  bool is_same_training() const;

  // What an earlier session has made, if it is still of the best point.
  std::optional<FinalResult> earlier_result() const;
  // Adds the trials, or takes up those of an interrupted session. Returns those
  // that have steps to do.
  std::vector<TrialId> begin();
  const std::vector<TrialId>& trials() const { return trials_; }
  // It is to be trained no further.
  bool is_trained(const Trial& trial) const;

  // Once all have ended: which model is shipped, among those that were trained
  // to the end and what the search had. False: there is none.
  bool choose();
  TrialId chosen() const { return chosen_; }  // 0: not yet
  // Why the trials that did not end well failed.
  std::string cause_of_failure() const;

  // For the next lease of a final trial: up to which step, from which file, and
  // what the worker has to know.
  int target(const Trial& trial) const;
  int resume_step(const Trial& trial) const;
  std::filesystem::path checkpoint(const Trial& trial) const;
  void describe(const Trial& trial, control::Assign& assign) const;
  // Trials that are trained at the same time.
  int running() const;

  // The chosen trial was tested. `why`: the search ended.
  FinalResult finish(Trial& trial, const std::map<std::string, double>& tested,
                     const std::string& why);

 private:
  void add(int index);
  Trial& new_trial(uint64_t seed, int target_step, const std::string& detail,
                   const std::string& why);
  void continue_search_training(Trial& trial);
  void copy_curve(int steps, Trial& to);
  bool choose_search_model();
  std::string describe_best() const;
  std::string describe_choice() const;
  const Trial& best() const { return study_.trial(best_.id()); }
  const StepReport& peak() const;

  Study& study_;
  Records& records_;
  Incumbent& best_;
  const Clock& clock_;
  const FinalTrainingOptions options_;
  std::vector<TrialId> trials_;
  TrialId chosen_ = 0;
  int step_ = 0;     // of the chosen trial
  std::string why_;  // it was chosen, one sentence
  std::string winner_;
};

}  // namespace dtune
