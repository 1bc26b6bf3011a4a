// What the sessions of all gangs have in common: a member takes orders from the
// gang's server (gang/messages.h), does its part of each phase of a step, and
// comes back with the report that all members return.
//
// A mode of training (data-parallel, parameter server, pipeline) is a derived
// class. It is called to train; judging the validation split, the metrics,
// the checkpoint, serving and receiving state, being stopped, and the final
// test are done here.
//
// Peers that do not answer (Error(comm) of the data plane) are the server's
// part: the groups are left, it is called, and it decides how to go on.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/data/prepared.h"
#include "dtune/distributed/gang_link.h"
#include "dtune/distributed/gang_predictions.h"
#include "dtune/distributed/gang_state.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/step_session.h"

namespace dtune {

class GangSession : public StepSession {
 public:
  uint64_t resident_bytes() const override { return commit_.bytes(); }

 protected:
  // REQUIRES: assignment.rank.
  GangSession(TrialAssignment assignment,
              std::shared_ptr<const PreparedData> data);

  // To be called once, when the mode is ready to give its state(): loads the
  // checkpoint that the assignment names.
  void start();

  // --- What a mode brings.

  // What this member trains, as views, with its position and updates.
  virtual TrainingState state() = 0;
  virtual void set_progress(int64_t position, int64_t updates) = 0;
  // Brings state() to the checkpoint's, whose report it returns; throws as
  // load_checkpoint. By default state() is all that the checkpoint holds.
  virtual StepReport load();
  // All that a checkpoint holds, at the leader; others return nothing. All
  // members are in here together, at the end of a step. By default state().
  virtual std::optional<TrainingState> gather(int leader);

  // How this member begins a step; by default, training and evaluation are
  // shared out by the server.
  virtual gang::Begin begin_of(int step);
  // A new data plane is there: link().whole_group(). State that a member lacked
  // has been sent.
  virtual void joined(const gang::Regroup& order);
  // One round of training. To do: the work; client().ready(...) with the sums
  // over its samples and `times` of the round before; link().wait_for(round).
  // If that is a go that is not `last`, what it says (reduce, update); then the
  // order is returned. A go that is returned counts: its totals are added to
  // the step's. Throws Error(comm) where a peer failed: nothing of the round
  // may count then.
  virtual gang::Order train(const gang::Work& work,
                            const std::atomic<bool>& stop) = 0;
  // The step's training is over; `who` are in here together, after the last
  // update and before any member judges or receives the result. For what
  // members hold each for themselves (running statistics).
  virtual void settle(const std::vector<int>& who, Duration patience);
  // The whole network as it is now, to answer evaluation batches and the test
  // split; null where this member holds a part of it or nothing.
  virtual Network* whole_network() = 0;
  // Of the validation split, at the leader, when the step's evaluation is done.
  // By default those of the answers that were gathered.
  virtual std::map<std::string, double> judge_step();
  // What was under way is void (a stop, another order): forget it. The state is
  // brought back by the caller where it must be.
  virtual void abandon() {}

  // --- What modes use.

  GangLink& link() { return link_; }
  GangClient& client() { return link_.client(); }
  int member() const { return link_.member(); }
  // The validation split's batches; null where it is not judged.
  GangPredictions* predictions() {
    return predictions_ ? &*predictions_ : nullptr;
  }
  const LossTotals& totals() const { return totals_; }
  int64_t round() const { return round_; }  // in work, or done last
  // The state is that of the end of the last step: what a step that is broken
  // off comes back to. For modes whose state() grows when the data plane is
  // there; steps keep theirs by themselves.
  void take_commit() { commit_.take(state()); }
  void put_commit();

  gang::RoundTimes times;  // of the last round; sent with the next ready

 private:
  // TrialFailure with these reasons concern the gang: lease_lapsed, it is
  // closed or its server is gone (the trial can go on from its checkpoint);
  // straggling, this member was evicted and the others go on.
  StepReport perform_step(const std::atomic<bool>& stop) final;
  void restore() final { put_commit(); }
  bool can_test() final;
  std::map<std::string, double> test() final;
  StepReport follow_orders(const std::atomic<bool>& stop);
  gang::Order take(const gang::Order& order, const std::atomic<bool>& stop);
  const gang::Work* accept(const gang::Order& order,
                           const std::atomic<bool>& stop);
  void accept_regroup(const gang::Regroup& order,
                      const std::atomic<bool>& stop);
  gang::Order perform(const gang::Work& work, const std::atomic<bool>& stop);
  gang::Order evaluate(const gang::Work& work, const std::atomic<bool>& stop);
  gang::Order commit(const gang::Work& work, const std::atomic<bool>& stop);
  void after_go(const gang::Work& work, const gang::Go& go);
  void serve(const std::vector<int>& targets, Duration patience);
  void receive(int source, Duration patience);
  gang::Order fail(const Error& error, const std::atomic<bool>& stop);
  std::map<std::string, double> leader_metrics();
  void write(const TrainingState& whole, StepReport report);
  StepReport finish(const gang::Go& go);

  std::optional<GangPredictions> predictions_;
  StateCopy commit_;  // the state at the end of the last step
  GangLink link_;

  bool current_ = true;  // its state is that of the last commit
  int64_t round_ = 0;    // of the work that was taken last
  int leader_ = 0;       // member; all agree at the end of a round
  LossTotals totals_;    // of the step so far
};

}  // namespace dtune
