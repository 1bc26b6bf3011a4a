#include "dtune/cluster/protocol.h"

#include <utility>

#include "dtune/base/error.h"
#include "dtune/study/slots.h"
#include "dtune/wire/codec.h"

namespace dtune {
namespace control {

namespace {

using wire::AnyReal;
using wire::Between;
using wire::kCount;
using wire::kElapsed;
using wire::kNatural;
using wire::kPositive;
using wire::kSeconds;
using wire::Within;

// Slot numbers index tables and steps size loops.
constexpr Between kSlot{0, kMaxSlots - 1};

template <class V, class M>
void lease(V& visit, M& m) {
  visit("slot", m.slot, kSlot);
  visit("trial", m.trial, kCount);
  visit("attempt", m.attempt, kNatural);
}

}  // namespace

template <class V>
void fields(V& visit, Hello& m) {
  visit("study", m.study_id);
  visit("node", m.node);
  visit("agent", m.agent);
  visit("slots", m.slots, Between{0, kMaxSlots});
  visit("seats", m.seats, Between{1, kMaxSlots});
  visit("threads", m.threads, Between{1, kMaxThreads});
  visit("pid", m.pid, kCount);
  visit("job", m.job);
  visit("left_ns", m.left_ns, kElapsed);
}

template <class V>
void fields(V& visit, Welcome& m) {
  visit("study", m.study_id);
  visit("session", m.session);
  visit("recipe", m.recipe_yaml);
  visit("prepared", m.prepared_data);
  visit("deterministic", m.deterministic);
  visit("may_fuse", m.may_fuse);
  visit("heartbeat_ns", m.heartbeat_ns, kElapsed);
  visit("lease_ns", m.lease_ns, kElapsed);
  visit("grace_ns", m.grace_ns, kElapsed);
  visit("memory_mb", m.memory_mb, kCount);
  visit("warm_trials", m.warm_trials, kNatural);
  visit("files_endpoint", m.files_endpoint);
  visit("files_key", m.files_key);
  visit("probe", m.probe);
  visit("probe_word", m.probe_word);
}

template <class V>
void fields(V&, Heartbeat&) {}

template <class V>
void fields(V& visit, SlotUp& m) {
  visit("slot", m.slot, kSlot);
  visit("pid", m.pid, kCount);
  visit("public_key", m.public_key);
}

template <class V>
void fields(V& visit, SlotDown& m) {
  visit("slot", m.slot, kSlot);
  visit("gone", m.gone);
  visit("detail", m.detail);
}

template <class V>
void fields(V& visit, Assign& m) {
  lease(visit, m);
  visit("kind", m.kind, TrialKind::repeat);
  visit("point", m.point);
  visit("seed", m.seed);
  visit("horizon", m.horizon, kPositive);
  visit("target", m.target, kNatural);
  visit("resume_step", m.resume_step, kNatural);
  visit("finish", m.finish);
  visit("threads", m.threads, kPositive);
  visit("checkpoint", m.checkpoint);
  visit("model", m.model_file);
  visit("capability", m.capability);
  visit("gang", m.gang);
  visit("member", m.member, kNatural);
  visit("members", m.members, kPositive);
  visit("gang_endpoint", m.gang_endpoint);
  visit("gang_key", m.gang_key);
  visit("gang_address", m.gang_address);
  visit("origin", m.origin, kCount);
  visit("chosen", m.chosen);
}

template <class V>
void fields(V& visit, Extend& m) {
  lease(visit, m);
  visit("target", m.target, kNatural);
}

template <class V>
void fields(V& visit, Pause& m) {
  lease(visit, m);
}

template <class V>
void fields(V& visit, Cut& m) {
  lease(visit, m);
}

template <class V>
void fields(V& visit, Kill& m) {
  lease(visit, m);
  visit("reason", m.reason, Reason::scheduled);
  visit("why", m.why);
}

template <class V>
void fields(V& visit, Report& m) {
  lease(visit, m);
  visit("checkpointed", m.checkpointed);
  visit("step", m.report.step, kPositive);
  visit("metrics", m.report.metrics, AnyReal{});
  visit("seconds", m.report.seconds, kSeconds);
  visit("checkpoint_seconds", m.report.checkpoint_seconds, kSeconds);
  visit("last", m.report.last);
}

template <class V>
void fields(V& visit, Ack& m) {
  lease(visit, m);
  visit("step", m.step, kNatural);
}

template <class V>
void fields(V& visit, Ended& m) {
  lease(visit, m);
  visit("outcome", m.outcome, Outcome::temporary);
  visit("reason", m.reason, Reason::scheduled);
  visit("detail", m.detail);
  visit("exit_code", m.exit_code);
  visit("signal", m.signal);
  visit("steps", m.steps, kNatural);
  visit("metrics", m.metrics, AnyReal{});
}

template <class V>
void fields(V& visit, Progress& m) {
  lease(visit, m);
  visit("phase", m.phase);
  visit("fraction", m.fraction, Within{0, 1});
  visit("samples_per_second", m.samples_per_second, Within{0, 1e15});
  visit("resident_bytes", m.resident_bytes);
  visit("activity", m.activity);
  visit("together", m.together, Between{1, kMaxSlots});
}

template <class V>
void fields(V& visit, Stop& m) {
  visit("now", m.now);
  visit("returns", m.returns);
}

template <class V>
void fields(V& visit, Bye& m) {
  visit("again", m.again);
  visit("why", m.why);
  visit("wall_ms", m.wall_ms, kCount);
}

template <class V>
void fields(V& visit, Enrol& m) {
  visit("public_key", m.public_key);
  visit("node", m.node);
}

template <class V>
void fields(V& visit, Enrolled& m) {
  visit("study", m.study_id);
}

namespace {

using MessageCodec = wire::Codec<Message>;

constexpr MessageCodec codec(int version) {
  return {{"hello", "welcome", "heartbeat", "slot_up", "slot_down", "assign",
           "extend", "pause", "cut", "kill", "report", "ack", "ended",
           "progress", "stop", "bye", "enrol", "enrolled"},
          version};
}

}  // namespace
}  // namespace control

const char* type_name(const control::Message& message) {
  return control::codec(wire::kVersion).type_name(message);
}

int slot_of(const control::Message& message) {
  return std::visit(
      [](const auto& m) {
        if constexpr (requires { m.slot; }) {
          return m.slot;
        } else {
          return -1;
        }
      },
      message);
}

std::string encode(control::Message message, int version) {
  return std::move(control::codec(version).encode(std::move(message)).front());
}

control::Message decode(std::string_view bytes, int version) {
  return control::codec(version).decode(bytes);
}

std::optional<control::Cut> lease_in(std::string_view bytes) {
  try {
    const wire::Head head(bytes, wire::kVersion);
    std::span<const std::string> none;
    wire::FieldReader reader(head.fields(), none);
    control::Cut lease;
    fields(reader, lease);
    return lease;
  } catch (const Error&) {
  } catch (const wire::BadField&) {
  }
  return std::nullopt;
}

}  // namespace dtune
