// The two interfaces behind which every way of tuning stands: a Sampler
// proposes points, a Scheduler decides which trial gets the next steps. Any
// sampler works with any scheduler. Implementations live in tuner/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/study/plateau.h"
#include "dtune/study/study.h"

namespace dtune {

// What a sampler or scheduler can say of itself for `dtune explain` and
// `dtune status`; everything is optional. Changes nothing that decisions depend
// on; caches are allowed. Not thread-safe.
class Explainer {
 public:
  virtual ~Explainer() = default;

  // Sentences about the study; the first has the members' weights in one line.
  virtual std::vector<std::string> explain(const Study& /*study*/) const {
    return {};
  }
  // Sentences about one trial: what it is expected to reach, why it waits.
  virtual std::vector<std::string> explain_trial(const Study& /*study*/,
                                                 TrialId /*trial*/) const {
    return {};
  }
  // How much each predictor counts now, as Belief::weights.
  virtual std::map<std::string, double> weights(const Study& /*study*/) const {
    return {};
  }
  // The metric of `trial` at `step` (beyond its curve, or of an observed one);
  // empty where it cannot say.
  virtual std::optional<Prediction> predict(const Study& /*study*/,
                                            const Trial& /*trial*/,
                                            int /*step*/) const {
    return std::nullopt;
  }
};

// Proposes points of the search space. Stateless in effect: what it returns
// depends on the study, the recipe's seed and the decision number alone, so
// that a study can be replayed and resumed; caches are allowed. Of the study,
// what tells where and when a trial ran (node, slot, checkpoint, wall-clock
// times) must not be looked at: a replay does not have it.
// Not thread-safe. May block for as long as a proposal takes (milliseconds).
class Sampler : public Explainer {
 public:
  struct Proposal {
    Point point;
    std::string why;  // one sentence for the decision log
    // Listed by the recipe, or of an opening: no new point and no other trial is
    // preferred to it.
    bool listed = false;
  };

  // A point that satisfies the space's constraints and differs from those of
  // all trials of the study, pending ones included, where the space has such a
  // point left; empty where it is exhausted (grid, small discrete spaces).
  virtual std::optional<Proposal> propose(const Study& study,
                                          int64_t decision) = 0;
};

// What a free slot does next.
struct Directive {
  enum class Kind {
    start,   // a new trial at `point`, up to `target_step`
    resume,  // a paused trial, up to `target_step`
    wait,    // nothing now; ask again after the next report
    finish,  // nothing now or later: the search is over once all slots are free
  };
  Kind kind = Kind::wait;
  TrialId trial = 0;  // resume
  Point point;        // start
  int target_step = 0;
  std::string why;
};

// What happens to a running trial after a report.
struct Verdict {
  enum class Kind {
    go_on,  // keep training up to its target (extended if target_step is
            // larger)
    pause,  // checkpoint, free the slot; may be resumed
    cut,    // never resumed
  };
  Kind kind = Kind::go_on;
  int target_step = 0;  // go_on: the new target; 0 leaves it
  Reason reason = Reason::none;
  std::string why;
};

// A paused trial that is given up, with its checkpoint.
struct Dismissal {
  TrialId trial = 0;
  Reason reason = Reason::hopeless;
  std::string why;
};

// Decides which trial gets the next steps. As with Sampler, what it returns
// depends on its arguments alone. Not thread-safe.
class Scheduler : public Explainer {
 public:
  // A slot is free. `sampler` is asked where a new trial is wanted. Budgets are
  // the coordinator's: a scheduler may always start another trial, but with
  // `may_start` false it must not. Returns `wait` only if a trial is running.
  virtual Directive next(const Study& study, Sampler& sampler, int64_t decision,
                         bool may_start) = 0;

  // `trial` has just reported the last step of its curve; it is below the
  // horizon and has not reached its target (`reached` false) or has (true, then
  // go_on with a larger target_step, pause or cut are the answers).
  virtual Verdict judge(const Study& study, const Trial& trial,
                        bool reached) = 0;

  // What is to be kept of the search, where the scheduler knows better than
  // the largest value reported: under noise that is the luckiest.
  virtual std::optional<Leader> leader(const Study& /*study*/) const {
    return std::nullopt;
  }

  // The paused trial with the least chance to become the best, where that is
  // too small to keep its checkpoint; `must`: however large it is. Empty where
  // there is none, and where the scheduler does not compare paused trials.
  virtual std::optional<Dismissal> dismiss(const Study& /*study*/,
                                           bool /*must*/) {
    return std::nullopt;
  }

  // The probability that `share` times what was trained so far, trained in
  // addition, improves the best value by more than `gain` (in units of the
  // metric); empty where it cannot say. By default that of study/plateau.h.
  virtual std::optional<double> chance_of_gain(const Study& study, double gain,
                                               double share) const {
    return dtune::chance_of_gain(study, gain, share);
  }

  // The plan that `dtune plan` prints: "rung 1: 27 trials to step 1", ...
  virtual std::vector<std::string> describe_plan(const Recipe& recipe,
                                                 int horizon) const = 0;
};

}  // namespace dtune
