// The best trials of a search, trained again with other seeds before one of
// them is named the winner (`final.candidates`): the best of many noisy values
// is better than what its point deserves.
#pragma once

#include <string>
#include <vector>

#include "dtune/cluster/records.h"

namespace dtune {

// Not thread-safe; leases are given by the caller. References outlive this.
class Repeats {
 public:
  // Trainings of each candidate beside that of the search.
  static constexpr int kSeeds = 2;

  Repeats(Study& study, Records& records, const Clock& clock);

  bool wanted() const;
  // Adds the trials, or takes up those of an earlier session. Candidates are
  // `leader`, and those with the best values. Returns the trials that have
  // steps to do.
  std::vector<TrialId> begin(TrialId leader);

  // The candidate with the best mean over its trainings, that of the search
  // included; those that failed do not count, and a candidate whose repeats
  // have all failed is left out. 0: no candidate is left.
  TrialId winner() const;
  // Why, with what it had in the search and what the others' seeds gave.
  std::string why(TrialId winner) const;

 private:
  std::vector<const Trial*> candidates() const;
  std::vector<const Trial*> repeats_of(const Trial& candidate) const;
  Trial& add(const Trial& candidate, uint64_t seed);

  Study& study_;
  Records& records_;
  const Clock& clock_;
  TrialId leader_ = 0;
};

}  // namespace dtune
