// What the members of a gang and its server say to each other.
//
// A gang trains by rounds. The server hands out the work of a round, collects
// from every member that it is about to finish (ready), and answers with those
// that take part (go): all, or, past a deadline, those that are ready; the work
// of the others goes back into the queue. So no member ever waits for another
// that is slow, suspended or dead, no sample is lost, and members agree on
// every update.
//
//   member                                server
//     join(member, pid)          ->
//     begin(step, ...)           ->         of a fidelity step, from every
//                                           member
//                                <-  regroup(incarnation, members, work)
//     ready(round, totals)       ->         at the last finished gradient. Where
//                                           reductions overlap: at the first one,
//                                           so that the answer travels while
//                                           others come, and again at the last,
//                                           if there is no answer yet
//                                <-  go(round, participants, totals, work)
//     [reduce, update; next work]
//     failed(round, what)        ->         a peer did not answer
//                                <-  regroup(incarnation + 1, ...)
//                                <-  catch_up(no source, no work)   to one that
//                                    stands still: its round is void
//                                <-  catch_up(source, work)   to a late member
//                                <-  give_up(member)   it stands still: operations
//                                    under way that wait for it fail
//                                <-  evicted | closed
//
// Phases of a step: train until the step's end, evaluate (its batches are work
// like any other), commit (the leader, i.e. the first participant, writes the
// checkpoint and gives the metrics to all). Modes that share out their training
// themselves (parameter server, pipeline) have one round of `train` without
// ranges, which has no deadline, and skip `evaluate` if they say so.
//
// Rounds without work (no spans, batch_samples 0) only make sure that what was
// before is applied: a member is ready at once; a regroup follows. A regroup
// has a new incarnation, whose groups are made anew, but for a step that begins
// with just those that did all of the step before together: they keep theirs.
//
// A member that stops after it was ready breaks the reduction: the others give
// it up, on give_up or after `patience`, report it failed, and the
// round is trained again without the silent member. Where one of them had the
// whole sum, the others get its state instead: so all that go on have applied
// the same.
//
// A member that lags behind (late, new, restarted) gets weights, optimizer
// state and buffers from a `source` member over the data plane, after the round
// that the message names; a member that has applied more updates is never a
// target.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/data/spans.h"
#include "dtune/study/metrics.h"

namespace dtune::gang {

enum class Phase { train, evaluate, commit };

// What one member does in a round.
struct Work {
  int64_t round = 0;  // 1, 2, ... in the life of the gang
  Phase phase = Phase::train;
  // train: the batch as a whole (data/batches.h); number keys dropout masks.
  int64_t epoch = 0;
  int64_t number = 0;
  int64_t position = 0;       // samples accepted before this batch
  int64_t batch_samples = 0;  // of all members
  int64_t first_sample = 0;   // place of this member's first in the batch
  // This member's, of the epoch's order (train) or of evaluation batches; may
  // be empty. Commit: the leader's alone has one.
  std::vector<Span> spans;
};

// Seconds of one round as a member measured it; sent with the next round's
// ready.
struct RoundTimes {
  int64_t samples = 0;
  double data = 0;      // waiting for and preparing input
  double forward = 0;   // with the loss
  double backward = 0;  // until the last gradient
  double exposed = 0;   // reduction that nothing hid
  double waiting = 0;   // for go, i.e. for slower members
  double update = 0;    // optimizer
  double other = 0;
  double until_ready = 0;  // of compute: before `ready`; 0: all
  double stopped = 0;      // of compute: the process stood still
  double compute() const { return data + forward + backward; }
  RoundTimes& operator+=(const RoundTimes& more) {
    samples += more.samples;
    data += more.data;
    forward += more.forward;
    backward += more.backward;
    exposed += more.exposed;
    waiting += more.waiting;
    update += more.update;
    other += more.other;
    stopped += more.stopped;
    return *this;
  }
};

struct Regroup {
  int incarnation = 0;  // of the data plane: groups are made anew if it is new
  int step = 0;         // fidelity step that is being trained now
  int64_t updates = 0;  // that all have applied once targets are served
  std::vector<int> members;  // present, ascending: the whole data plane
  int source = -1;           // member; -1: none lags
  std::vector<int> targets;
  Duration patience{0};  // for one operation of the data plane
  Work work;
};

struct Go {
  int64_t round = 0;
  std::vector<int> participants;  // ascending; the first is the leader
  LossTotals totals;              // of the participants; evaluate: of all its
                                  // rounds so far
  // After this round's update the source serves the targets.
  int source = -1;
  std::vector<int> targets;
  Duration patience{0};  // for one operation of the data plane
  bool last = false;     // commit: the step is done; `next` is void
  Work next;
  std::map<std::string, double> metrics;  // commit: of the leader
};

// To a member that missed a round: it receives the source's state as it is
// after `round`, then does the work. What it computes still is void; work
// without spans is all that there is for it until the round after.
struct CatchUp {
  int64_t round = 0;
  int64_t updates = 0;
  int source = 0;  // -1: it has missed no update
  Duration patience{0};
  Work work;
};

// `member` stands still: what waits for it over the data plane of `incarnation`
// is given up, as if `patience` were over. Sent again while it stands still; of
// no effect on members that do not wait for it.
struct GiveUp {
  int incarnation = 0;
  int member = 0;
};

struct Evicted {
  std::string why;
};

// The gang is over: its trial ended, or too many members are gone. Names the
// missing, their nodes, last phases and how long ago.
struct Closed {
  std::string why;
};

using Order = std::variant<Regroup, Go, CatchUp, GiveUp, Evicted, Closed>;

// A member at the start of a fidelity step.
struct Begin {
  int step = 1;
  int64_t updates = 0;   // applied: how old its state is
  int64_t position = 0;  // samples seen
  int64_t end = 0;       // of the step, in samples seen
  int64_t epoch_samples = 1;
  int64_t batch_size = 1;
  int64_t evaluation_batches = 0;  // 0: no such phase
  // One round without ranges or deadline. A worker of a parameter server that
  // goes or comes makes a regroup in the middle of it, with the same round:
  // a member that is ready need not repeat it.
  bool own_training = false;
};

struct Ready {
  int64_t round = 0;
  LossTotals totals;
  RoundTimes times;  // of the round before
  // Applied: one for every go of a round of training in which a sample was
  // trained. A member with another number than the gang's is behind and gets
  // state.
  int64_t updates = 0;
  std::map<std::string, double> metrics;  // commit, of the leader
  // Nothing of the round is left to compute: where the others have gone on, it
  // can be given their state at once. False: one with true follows.
  bool complete = true;
};

struct Failed {
  int64_t round = 0;
  int incarnation = 0;
  int64_t updates = 0;
  std::string what;
};

}  // namespace dtune::gang
