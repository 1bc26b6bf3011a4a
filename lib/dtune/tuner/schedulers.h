// The schedulers. Each throws Error(config) where the recipe's options or the
// horizon do not fit.
#pragma once

#include <memory>
#include <vector>

#include "dtune/study/tuner.h"

namespace dtune {

// Every trial runs to the horizon.
std::unique_ptr<Scheduler> make_fifo_scheduler(const Recipe& recipe,
                                               int horizon);

// Median stopping (Golovin et al. 2017, "Google Vizier", section 3.2.2, doi
// 10.1145/3097983.3098043): a trial is cut at step s if its best value so far
// is worse than the median of the running means, over the steps 1 .. s, of the
// other trials that have got there. Unlike Vizier's, these need not have ended.
// Options: `grace_steps` (no cut before; default: an eighth of the horizon, at
// least 1), `min_trials` (others needed for a median; default 4).
std::unique_ptr<Scheduler> make_median_scheduler(const Recipe& recipe,
                                                 int horizon);

// Asynchronous successive halving (Li et al. 2018, arXiv 1810.05934, algorithm
// 2) with real pauses: a trial that reaches a rung is paused there, and is
// promoted to the next rung once it is among the best 1/eta of those that have
// reached its rung; otherwise a free slot starts a new trial. Options: `mode`
// (how early and how hard trials are left: aggressive has eta 4 and its first
// rung at 1/24 of the horizon, standard 3 and 1/12, conservative 2 and 1/6,
// rounded up; of the images where steps are levels), `eta` and `min_steps` (the
// first rung) in place of the mode's.
//
// As implemented:
// - a trial's value at a rung is its best up to there, so that the incumbent,
//   by the study's own rule, is never passed over; ties go to the older trial;
//   a trial without a finite value ranks last and is never promoted;
// - a trial that failed or was cut on the way counts as one that lost at the
//   rung it was heading for; a lost one counts where it has a result, an
//   invalid one nowhere;
// - a trial that is promotable when it reports goes on without a pause;
// - when no trial may be started any more, promotions go on; then the best
//   trial is taken to the horizon rung by rung, other slots taking the next
//   best as long as they would not outlast it; then the search is finished. A
//   budget of time alone ends the search wherever it is.
// - `horizon` kOpenHorizon has no rungs: without options the trials run to
//   their own end, as with fifo; with options that is an error.
std::unique_ptr<Scheduler> make_asha_scheduler(const Recipe& recipe,
                                               int horizon);

// Asynchronous Hyperband: brackets of ASHA side by side, one for each rung,
// which begin at that rung (Li et al. 2018; the brackets are those of Li et al.
// 2017, "Hyperband", JMLR 18(185), algorithm 1). Trials of the first brackets
// are many and soon paused; those of the last are trained to the horizon, so
// that curves which cross late lose no more than the other brackets' budget.
// Options: `eta` (3), `min_steps` (the first rung; default: the horizon divided
// by eta up to three times, as long as a step is left, rounded up; where steps
// are levels, up to three rungs below the last).
//
// As implemented, beside what is said of ASHA:
// - brackets run at the same time, not one after the other: each new trial is
//   dealt to one by its number (Rungs::bracket), in shares that give all
//   brackets the same budget;
// - the budget is that of trials which pause and go on, in images where steps
//   are levels; the paper's counts each rung from the beginning of training;
// - a trial is compared with those of its bracket alone; the best one of all
//   is taken to the horizon at the end.
std::unique_ptr<Scheduler> make_hyperband_scheduler(const Recipe& recipe,
                                                    int horizon);

}  // namespace dtune
