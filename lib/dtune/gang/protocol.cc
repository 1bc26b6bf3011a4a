#include "dtune/gang/protocol.h"

#include <utility>

#include "dtune/wire/codec.h"

namespace dtune {

// Where Span and LossTotals are, so that they are found by their argument.
template <class V>
void fields(V& visit, Span& m) {
  visit("first", m.first, wire::kCount);
  visit("size", m.size, wire::kCount);
}
template <class V>
void fields(V& visit, LossTotals& m) {
  visit("loss", m.loss, wire::AnyReal{});
  visit("weight", m.weight);
  visit("right", m.correct, wire::kCount);
  visit("samples", m.samples, wire::kCount);
}

namespace gang {
namespace {

using wire::AnyReal;
using wire::Between;
using wire::kCount;
using wire::kElapsed;
using wire::kNatural;
using wire::kPositive;
using wire::kTime;

constexpr Between kMember{0, kMaxMembers - 1};
constexpr Between kSource{-1, kMember.most};
constexpr Between kSizes{1, kCount.most};

}  // namespace

template <class V>
void fields(V& visit, RoundTimes& m) {
  visit("samples", m.samples, kCount);
  visit("data", m.data);
  visit("forward", m.forward);
  visit("backward", m.backward);
  visit("exposed", m.exposed);
  visit("waiting", m.waiting);
  visit("update", m.update);
  visit("other", m.other);
  visit("until_ready", m.until_ready);
  visit("stopped", m.stopped);
}

template <class V>
void fields(V& visit, Work& m) {
  visit("round", m.round, kCount);
  visit("phase", m.phase, Phase::commit);
  visit("epoch", m.epoch, kCount);
  visit("number", m.number, kCount);
  visit("position", m.position, kCount);
  visit("batch", m.batch_samples, kCount);
  visit("offset", m.first_sample, kCount);
  visit("spans", m.spans);
}

template <class V>
void fields(V& visit, TraceItem& m) {
  visit("kind", m.kind, TraceEvent::Kind::mark);
  visit("lane", m.lane);
  visit("name", m.name);
  visit("begin_ns", m.begin_ns, kTime);
  visit("duration_ns", m.duration_ns, kCount);
  visit("value", m.value);
}

template <class V>
void fields(V& visit, Join& m) {
  visit("gang", m.gang);
  visit("member", m.member, kMember);
  visit("process", m.process);
  visit("session", m.session);
}

template <class V>
void fields(V& visit, Welcome& m) {
  visit("session", m.session);
  visit("fresh", m.fresh);
  visit("heartbeat_ns", m.heartbeat_ns, kElapsed);
  visit("lease_ns", m.lease_ns, kElapsed);
  visit("trace", m.trace);
}

template <class V>
void fields(V& visit, Heartbeat& m) {
  visit("phase", m.phase);
  visit("number", m.number);
  visit("phase_ns", m.phase_ns, kTime);
  visit("clock_ns", m.clock_ns, kTime);
  visit("gauges", m.gauges);
}

template <class V>
void fields(V& visit, Pong& m) {
  visit("echo_ns", m.echo_ns, kTime);
  visit("clock_ns", m.clock_ns, kTime);
}

template <class V>
void fields(V& visit, Begin& m) {
  visit("step", m.step, kPositive);
  visit("updates", m.updates, kCount);
  visit("position", m.position, kCount);
  visit("end", m.end, kCount);
  visit("epoch_samples", m.epoch_samples, kSizes);
  visit("batch_size", m.batch_size, kSizes);
  visit("evaluation_batches", m.evaluation_batches, kCount);
  visit("own_training", m.own_training);
}

template <class V>
void fields(V& visit, Ready& m) {
  visit("round", m.round, kCount);
  visit("totals", m.totals);
  visit("times", m.times);
  visit("updates", m.updates, kCount);
  visit("metrics", m.metrics, AnyReal{});
  visit("complete", m.complete);
}

template <class V>
void fields(V& visit, Failed& m) {
  visit("round", m.round, kCount);
  visit("incarnation", m.incarnation, kNatural);
  visit("updates", m.updates, kCount);
  visit("what", m.what);
}

template <class V>
void fields(V& visit, Regroup& m) {
  visit("incarnation", m.incarnation, kNatural);
  visit("step", m.step, kNatural);
  visit("updates", m.updates, kCount);
  visit("members", m.members, kMember);
  visit("source", m.source, kSource);
  visit("targets", m.targets, kMember);
  visit("patience_ns", m.patience, kElapsed);
  visit("work", m.work);
}

template <class V>
void fields(V& visit, Go& m) {
  visit("round", m.round, kCount);
  visit("participants", m.participants, kMember);
  visit("totals", m.totals);
  visit("source", m.source, kSource);
  visit("targets", m.targets, kMember);
  visit("patience_ns", m.patience, kElapsed);
  visit("last", m.last);
  visit("next", m.next);
  visit("metrics", m.metrics, AnyReal{});
}

template <class V>
void fields(V& visit, CatchUp& m) {
  visit("round", m.round, kCount);
  visit("updates", m.updates, kCount);
  visit("source", m.source, kSource);
  visit("patience_ns", m.patience, kElapsed);
  visit("work", m.work);
}

template <class V>
void fields(V& visit, GiveUp& m) {
  visit("incarnation", m.incarnation, kNatural);
  visit("member", m.member, kMember);
}

template <class V>
void fields(V& visit, Evicted& m) {
  visit("why", m.why);
}

template <class V>
void fields(V& visit, Closed& m) {
  visit("why", m.why);
}

template <class V>
void fields(V& visit, StoreSet& m) {
  visit("key", m.key);
  visit("value", m.value);
}

template <class V>
void fields(V& visit, StoreValue& m) {
  visit("key", m.key);
  visit("value", m.value);
}

template <class V>
void fields(V& visit, StoreGet& m) {
  visit("key", m.key);
}

template <class V>
void fields(V& visit, TraceOn& m) {
  visit("on", m.on);
}

template <class V>
void fields(V& visit, TraceChunk& m) {
  visit("offset_ns", m.offset_ns, kTime);
  visit("events", m.events);
}

template <class V>
void fields(V&, Again&) {}

template <class V>
void fields(V&, Left&) {}

template <class V>
void fields(V&, Leave&) {}

template <class V>
void fields(V& visit, Packet& m) {
  visit("sequence", m.sequence, kCount);
  visit("ack", m.ack, kCount);
  visit("begun", m.begun, kCount);
}

namespace {

constexpr wire::Codec<Message> kCodec{
    {"join",    "welcome", "again", "heartbeat", "pong",  "begin",    "ready",
     "failed",  "left",    "leave", "regroup",   "go",    "catch_up", "give_up",
     "evicted", "closed",  "set",   "get",       "value", "trace_on", "trace"}};

}  // namespace

const char* type_name(const Message& message) {
  return kCodec.type_name(message);
}

std::string encode(Packet packet) {
  return std::move(
      kCodec.encode(std::move(packet.message), {}, packet).front());
}

Packet decode(std::string_view bytes) {
  Packet packet;
  packet.message = kCodec.decode(bytes, packet);
  return packet;
}

}  // namespace gang
}  // namespace dtune
