// The control plane's messages: what they are called, which side sends them,
// how they are written.
//
//   coordinator <--ROUTER/DEALER--> agent (one a node) <--ROUTER/DEALER-->
//   worker (one a slot)
//
// wire/fields.h says how a message is written. Each is one frame; one ZeroMQ
// message carries one or more of them, so a burst costs one system call. Agents
// pass what concerns a slot on as it came, without writing it anew.
//
//   type      | from        | to          | when
//   ----------+-------------+-------------+------------------------------------
//   hello     | agent       | coordinator | first, and after every `bye again`
//   welcome   | coordinator | agent, slots| answer to hello; the study's recipe
//   heartbeat | both        | both        | nothing else was sent lately
//   slot_up   | worker      | agent, coord| the slot can take a trial
//   slot_down | agent       | coordinator | its worker died; `gone`: for good
//   assign    | coordinator | worker      | a lease: run this trial to `target`
//   extend    | coordinator | worker      | a larger target
//   pause     | coordinator | worker      | leave the trial, keep it warm
//   cut       | coordinator | worker      | leave the trial, drop it
//   kill      | coordinator | agent       | the slot hangs: end its process
//   report    | worker      | coordinator | a step is done, checkpoint written
//   ack       | coordinator | worker      | reports up to a step are committed
//   ended     | worker,agent| coordinator | the lease is over, and why
//   progress  | worker      | coordinator | every heartbeat, also inside a step
//   stop      | coordinator | agent, slots| end; `now`: without waiting;
//             |             |             | `returns`: look for it again
//   bye       | both        | both        | leaves; `again`: say hello (anew)
//   enrol     | agent       | access      | once: its key is to be allowed
//   enrolled  | access      | agent       | done (cluster/join.h); else bye
//
// A lease is (trial, attempt). Life of a slot as its coordinator sees it:
//
//   down --slot_up--> idle --assign--> busy --pause|cut--> releasing
//     ^                ^                |  \--report at target: waits for
//     |                |                |     extend, pause or cut
//     |                +----------------+-- ended, or released at its target
//     +-- slot_down, lease lapsed, agent lost
//
// Every pause or cut is answered by `ended`. What comes under a lease that is
// over is dropped without a word: late is not wrong. Reports are sent again
// until acknowledged, and replace what the same step said before, so both
// losing and repeating a message is harmless.
//
// Cost of a trial of n steps: 1 assign, n reports and n acks, 1 release, 1
// ended; a report is some 150 bytes. Every agent adds two heartbeats an
// interval, every slot one progress.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "dtune/base/clock.h"
#include "dtune/space/value.h"
#include "dtune/study/trial.h"
#include "dtune/wire/frames.h"

namespace dtune {

inline constexpr int kMaxThreads = 4096;  // of one slot

inline constexpr const char* kTrainingPhase = "training";
// The step is trained and waits for room for its checkpoint.
inline constexpr const char* kNoSpacePhase = "disk full";

namespace control {

struct Hello {
  std::string study_id;  // "": whichever the coordinator runs
  std::string node;      // shown to people
  std::string agent;     // unique name of the agent's process
  int slots = 1;
  int seats = 1;    // slots that share a worker, which fuses their trials
  int threads = 1;  // of each slot
  int64_t pid = 0;
  std::string job;      // of an engine that started the agent; "": none
  int64_t left_ns = 0;  // until that engine ends it; 0: not known
};

struct Welcome {
  std::string study_id;
  std::string session;  // of the coordinator's process; a new one: start anew
  std::string recipe_yaml;
  std::string prepared_data;
  bool deterministic = false;
  bool may_fuse = false;  // else each worker has one slot, whatever `seats` is
  int64_t heartbeat_ns = 0;
  int64_t lease_ns = 0;
  int64_t grace_ns = 0;
  int64_t memory_mb = 0;  // cap of a slot; 0: none
  int warm_trials = 0;    // 0: by memory
  // Where a node that does not share the coordinator's disk gets its files
  // (lease_files.h); "": all nodes share it.
  std::string files_endpoint;
  std::string files_key;  // CURVE; "": none is needed
  std::string probe;      // a file that holds `probe_word` where it is shared
  std::string probe_word;
};

struct Heartbeat {};

struct SlotUp {
  int slot = 0;
  int64_t pid = 0;
  std::string public_key;  // of the worker's process: it may reach other
                           // servers of the study by itself; "": it may not
};

struct SlotDown {
  int slot = 0;
  bool gone = false;   // will not be started again
  std::string detail;  // how it died
};

struct Assign {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
  TrialKind kind = TrialKind::search;
  Point point;
  uint64_t seed = 0;
  int horizon = 1;
  int target = 1;       // run to this step, then wait
  int resume_step = 0;  // steps that the coordinator has
  bool finish = false;  // after `target`: finish_final()
  int threads = 1;
  std::string checkpoint;
  std::string model_file;
  std::string capability;  // of the lease, where files travel (lease_files.h)
  // Of a trial that takes several slots (RankInfo); "": it has this one alone.
  std::string gang;
  int member = 0;
  int members = 1;
  std::string gang_endpoint;
  std::string gang_key;
  std::string gang_address;
  // Where `finish`: the search's trial whose point the model is of, and why.
  TrialId origin = 0;
  std::string chosen;
};

struct Extend {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
  int target = 0;
};

struct Pause {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
};

struct Cut {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
};

struct Kill {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
  Reason reason = Reason::none;  // given back in `ended`
  std::string why;
};

struct Report {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
  bool checkpointed = false;  // a checkpoint of this step is on disk
  StepReport report;
};

struct Ack {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
  int step = 0;  // and all before it under the same lease
};

enum class Outcome {
  stopped,    // as pause or cut asked
  complete,   // a final trial: finish_final() is done, see `metrics`
  failed,     // see `reason`
  temporary,  // not the trial's fault: try again later (disk full)
};

struct Ended {
  int slot = 0;
  TrialId trial = 0;
  Attempt attempt = 0;
  Outcome outcome = Outcome::stopped;
  Reason reason = Reason::none;
  std::string detail;
  int exit_code = -1;  // of the process that died; -1: none
  int signal = 0;      // that ended it; 0: none
  int steps = 0;       // done under this lease or before
  std::map<std::string, double> metrics;
};

struct Progress {
  int slot = 0;
  TrialId trial = 0;  // 0: idle
  Attempt attempt = 0;
  // "starting", "fetching" (files), kTrainingPhase, "sending" (files),
  // "testing", "waiting", "idle", kNoSpacePhase
  std::string phase;
  double fraction = 0;  // of the step in flight, 0..1
  double samples_per_second = 0;
  uint64_t resident_bytes = 0;
  // Grows while the trial computes or writes: milliseconds of CPU time, or
  // more.
  uint64_t activity = 0;
  int together = 1;  // StepProgress
};

struct Stop {
  bool now = false;
  bool returns = false;  // the coordinator: it was interrupted, and its engine
                         // starts it again
};

struct Bye {
  bool again = false;
  std::string why;
  int64_t wall_ms = 0;  // by the coordinator's clock; 0: not said
};

struct Enrol {
  std::string public_key;  // which is to be allowed
  std::string node;
};

struct Enrolled {
  std::string study_id;
};

using Message = std::variant<Hello, Welcome, Heartbeat, SlotUp, SlotDown,
                             Assign, Extend, Pause, Cut, Kill, Report, Ack,
                             Ended, Progress, Stop, Bye, Enrol, Enrolled>;

}  // namespace control

// The type's word, e.g. "report".
const char* type_name(const control::Message& message);

// The slot that a message concerns; -1: none (hello, heartbeat, ...).
int slot_of(const control::Message& message);

// One frame. Throws Error(comm) where it is larger than wire::kMaxFrameBytes.
std::string encode(control::Message message, int version = wire::kVersion);

// Throws Error(comm), never anything else, whatever the bytes are: too large,
// nested too deeply, not MessagePack, another version, unknown type, a field
// that is missing, ill-typed or out of its range.
control::Message decode(std::string_view bytes, int version = wire::kVersion);

// The slot and lease of a message that decode() refuses, where it says them;
// the result's type means nothing.
std::optional<control::Cut> lease_in(std::string_view bytes);

}  // namespace dtune
