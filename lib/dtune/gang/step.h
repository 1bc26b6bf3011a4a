// What a fidelity step of a gang has to do, and how much of it counts already.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtune/gang/epoch_queue.h"
#include "dtune/gang/messages.h"

namespace dtune::gang {

// A step trains in one of two kinds of rounds:
// - its batches are handed out by the gang's server, a batch a round, with a
//   deadline (all-reduce);
// - the members share them out among themselves, all in one round without
//   ranges or deadline (Begin::own_training: parameter server, pipeline).
// Evaluation and commit are the same for both. Not thread-safe.
class Step {
 public:
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  const Begin& begin() const { return begin_; }
  int number() const { return begin_.step; }
  Phase phase() const { return phase_; }
  // Applied by all whose state is the gang's.
  int64_t updates() const { return updates_; }
  // Of the evaluation, at its leader.
  const std::vector<Span>& evaluation() const { return evaluation_; }

  // --- What the kinds differ in.

  // Rounds of batches: all members have the same state and apply each update.
  virtual bool trains_by_batches() const = 0;
  // Members may come and go in the middle of the round; the others stay in it.
  virtual bool is_open_round() const = 0;
  // What was trained is only with the members that are in the step: no other
  // can come in, and without them it is lost.
  virtual bool is_held_by_members() const = 0;

  enum class Rollback { none, done, impossible };
  // The gang goes on from `updates`, the most that any member has applied.
  virtual Rollback go_on_from(int64_t updates) = 0;
  // The next round's work, what all members' have in common.
  virtual QueuedBatch plan_training(Work& work) const = 0;
  // A round of training is over; `spans`: what was trained.
  virtual void accept_training(const std::vector<Span>& spans) = 0;
  // What a member reports to have applied, at the end of any round.
  virtual void note_updates(int64_t updates) = 0;

  // --- The rest of the step.

  // Goes on to the next phase where nothing is left of this one.
  void enter_phase();
  // Nothing is known of the answers given so far; a commit is done again.
  void restart_evaluation();
  // The answers of a round are gathered by its leader: with another leader,
  // those of the rounds before are gone. Returns the totals of all that count.
  LossTotals accept_evaluation(std::vector<Span> spans,
                               const LossTotals& totals, int leader);

 protected:
  Step(const Begin& begin, int64_t updates);
  virtual bool trained() const = 0;
  void train_again() { phase_ = Phase::train; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  void forget_predictions();

  Begin begin_;
  Phase phase_ = Phase::train;
  int64_t updates_;
  std::vector<Span> evaluation_;  // batches not done yet
  int evaluation_leader_ = -1;    // has the answers of the others
  LossTotals evaluated_;
};

// Of the kind that `begin` asks for, at `updates` applied.
std::unique_ptr<Step> make_step(const Begin& begin, int64_t updates);

}  // namespace dtune::gang
