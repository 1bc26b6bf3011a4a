#include "dtune/gang/protocol.h"

#include <array>
#include <type_traits>

#include <fmt/format.h>

#include "dtune/gang/pack.h"

namespace dtune::gang {

template <>
inline constexpr int64_t kEnumValues<Phase> = 3;

// Beside the structs, so that pack.h finds them.
template <class M, class T>
concept Is = std::same_as<std::remove_const_t<M>, T>;

template <class V, Is<Span> M>
void fields(V& visit, M& m) {
  visit("first", m.first);
  visit("size", m.size);
}

template <class V, Is<Totals> M>
void fields(V& visit, M& m) {
  visit("loss", m.loss);
  visit("weight", m.weight);
  visit("right", m.right);
  visit("samples", m.samples);
}

template <class V, Is<RoundTimes> M>
void fields(V& visit, M& m) {
  visit("samples", m.samples);
  visit("data", m.data);
  visit("forward", m.forward);
  visit("backward", m.backward);
  visit("exposed", m.exposed);
  visit("waiting", m.waiting);
  visit("update", m.update);
  visit("other", m.other);
  visit("until_ready", m.until_ready);
}

template <class V, Is<Work> M>
void fields(V& visit, M& m) {
  visit("round", m.round);
  visit("phase", m.phase);
  visit("epoch", m.epoch);
  visit("number", m.number);
  visit("position", m.position);
  visit("batch", m.batch_samples);
  visit("offset", m.first_sample);
  visit("spans", m.spans);
}

template <class V, Is<TraceItem> M>
void fields(V& visit, M& m) {
  visit("k", m.kind);
  visit("l", m.lane);
  visit("n", m.name);
  visit("b", m.begin_ns);
  visit("d", m.duration_ns);
  visit("v", m.value);
}

template <class V, Is<Join> M>
void fields(V& visit, M& m) {
  visit("gang", m.gang);
  visit("member", m.member);
  visit("process", m.process);
  visit("session", m.session);
}

template <class V, Is<Welcome> M>
void fields(V& visit, M& m) {
  visit("session", m.session);
  visit("fresh", m.fresh);
  visit("heartbeat_ns", m.heartbeat_ns);
  visit("lease_ns", m.lease_ns);
  visit("trace", m.trace);
}

template <class V, Is<Heartbeat> M>
void fields(V& visit, M& m) {
  visit("phase", m.phase);
  visit("number", m.number);
  visit("phase_ns", m.phase_ns);
  visit("clock_ns", m.clock_ns);
  visit("gauges", m.gauges);
}

template <class V, Is<Pong> M>
void fields(V& visit, M& m) {
  visit("echo_ns", m.echo_ns);
  visit("clock_ns", m.clock_ns);
}

template <class V, Is<Begin> M>
void fields(V& visit, M& m) {
  visit("step", m.step);
  visit("updates", m.updates);
  visit("position", m.position);
  visit("end", m.end);
  visit("epoch_samples", m.epoch_samples);
  visit("batch_size", m.batch_size);
  visit("evaluation_batches", m.evaluation_batches);
  visit("own_training", m.own_training);
}

template <class V, Is<Ready> M>
void fields(V& visit, M& m) {
  visit("round", m.round);
  visit("totals", m.totals);
  visit("times", m.times);
  visit("updates", m.updates);
  visit("metrics", m.metrics);
  visit("complete", m.complete);
}

template <class V, Is<Failed> M>
void fields(V& visit, M& m) {
  visit("round", m.round);
  visit("incarnation", m.incarnation);
  visit("updates", m.updates);
  visit("what", m.what);
}

template <class V, Is<Regroup> M>
void fields(V& visit, M& m) {
  visit("incarnation", m.incarnation);
  visit("step", m.step);
  visit("updates", m.updates);
  visit("members", m.members);
  visit("source", m.source);
  visit("targets", m.targets);
  visit("work", m.work);
}

template <class V, Is<Go> M>
void fields(V& visit, M& m) {
  visit("round", m.round);
  visit("participants", m.participants);
  visit("totals", m.totals);
  visit("source", m.source);
  visit("targets", m.targets);
  visit("patience_ns", m.patience);
  visit("last", m.last);
  visit("next", m.next);
  visit("metrics", m.metrics);
}

template <class V, Is<CatchUp> M>
void fields(V& visit, M& m) {
  visit("round", m.round);
  visit("updates", m.updates);
  visit("source", m.source);
  visit("patience_ns", m.patience);
  visit("work", m.work);
}

template <class V, class M>
requires(Is<M, Evicted> || Is<M, Closed>) void fields(V& visit, M& m) {
  visit("why", m.why);
}

template <class V, class M>
requires(Is<M, StoreSet> || Is<M, StoreValue>) void fields(V& visit, M& m) {
  visit("key", m.key);
  visit("value", m.value);
}

template <class V, Is<StoreGet> M>
void fields(V& visit, M& m) {
  visit("key", m.key);
}

template <class V, Is<TraceOn> M>
void fields(V& visit, M& m) {
  visit("on", m.on);
}

template <class V, Is<TraceChunk> M>
void fields(V& visit, M& m) {
  visit("offset_ns", m.offset_ns);
  visit("events", m.events);
}

template <class V, class M>
requires(Is<M, Again> || Is<M, Left> || Is<M, Leave>) void fields(V&, M&) {}

namespace {

// In the order of Message.
constexpr std::array<const char*, std::variant_size_v<Message>> kTypes = {
    "join",    "welcome", "again",    "heartbeat", "pong",
    "begin",   "ready",   "failed",   "left",      "leave",
    "regroup", "go",      "catch_up", "evicted",   "closed",
    "set",     "get",     "value",    "trace_on",  "trace"};

// Far beyond any data set, far below overflow when a few are added.
constexpr int64_t kMostSamples = int64_t{1} << 56;
constexpr int64_t kMostTime = int64_t{1} << 61;  // ns

[[noreturn]] void out_of_range(const Message& message, const char* what) {
  fail_message(fmt::format("{}: {} out of range", type_name(message), what));
}

struct RangeCheck {
  const Message& message;

  void count(int64_t value, const char* what) const {
    if (value < 0 || value > kMostSamples) out_of_range(message, what);
  }
  void time(int64_t ns) const {
    if (ns < -kMostTime || ns > kMostTime) out_of_range(message, "time");
  }
  void member(int value) const {
    if (value < 0 || value >= kMaxMembers) out_of_range(message, "member");
  }
  void members(const std::vector<int>& values) const {
    for (const int value : values) member(value);
  }
  void source(int value) const {
    if (value != -1) member(value);
  }
  void work(const Work& work) const {
    count(work.round, "round");
    count(work.epoch, "epoch");
    count(work.number, "number");
    count(work.position, "position");
    count(work.batch_samples, "batch");
    count(work.first_sample, "offset");
    for (const Span& span : work.spans) {
      count(span.first, "span");
      count(span.size, "span");
    }
  }
  void totals(const Totals& totals) const {
    count(totals.right, "right");
    count(totals.samples, "samples");
  }

  void operator()(const Join& m) const { member(m.member); }
  void operator()(const Begin& m) const {
    if (m.step < 1) out_of_range(message, "step");
    if (m.epoch_samples < 1 || m.batch_size < 1) out_of_range(message, "batch");
    count(m.updates, "updates");
    count(m.position, "position");
    count(m.end, "end");
    count(m.epoch_samples, "epoch");
    count(m.batch_size, "batch");
    count(m.evaluation_batches, "evaluation");
  }
  void operator()(const Ready& m) const {
    count(m.round, "round");
    count(m.updates, "updates");
    count(m.times.samples, "samples");
    totals(m.totals);
  }
  void operator()(const Failed& m) const {
    count(m.round, "round");
    count(m.updates, "updates");
  }
  void operator()(const Regroup& m) const {
    count(m.updates, "updates");
    members(m.members);
    members(m.targets);
    source(m.source);
    work(m.work);
  }
  void operator()(const Go& m) const {
    count(m.round, "round");
    totals(m.totals);
    members(m.participants);
    members(m.targets);
    source(m.source);
    work(m.next);
  }
  void operator()(const CatchUp& m) const {
    count(m.round, "round");
    count(m.updates, "updates");
    member(m.source);
    work(m.work);
  }
  void operator()(const TraceChunk& m) const {
    for (const TraceItem& item : m.events) {
      if (item.kind < 0 ||
          item.kind > static_cast<int>(TraceEvent::Kind::mark)) {
        out_of_range(message, "kind");
      }
      count(item.duration_ns, "duration");
      time(item.begin_ns);
    }
    time(m.offset_ns);
  }
  void operator()(const Heartbeat& m) const {
    time(m.clock_ns);
    time(m.phase_ns);
  }
  void operator()(const Pong& m) const {
    time(m.clock_ns);
    time(m.echo_ns);
  }
  template <class M>
  void operator()(const M&) const {}
};

template <size_t I = 0>
Message read_message(std::string_view type, PackView from) {
  if constexpr (I == std::variant_size_v<Message>) {
    fail_message(fmt::format("unknown type '{}'", type.substr(0, 40)));
  } else {
    if (type != kTypes[I]) return read_message<I + 1>(type, from);
    std::variant_alternative_t<I, Message> message;
    FieldReader{kTypes[I], from}.get(from, message);
    return message;
  }
}

}  // namespace

const char* type_name(const Message& message) {
  return kTypes.at(message.index());
}

std::string encode(const Packet& packet) {
  PackWriter out;
  out.begin_array(6);
  out.integer(kProtocolVersion);
  out.text(type_name(packet.message));
  std::visit([&](const auto& m) { FieldWriter{out}.put(m); }, packet.message);
  out.integer(packet.sequence);
  out.integer(packet.ack);
  out.integer(packet.begun);
  const std::string_view bytes = out.bytes();
  if (bytes.size() > kMaxMessageBytes) {
    fail_message(fmt::format("{} of {} bytes, {} are allowed",
                             type_name(packet.message), bytes.size(),
                             kMaxMessageBytes));
  }
  return std::string(bytes);
}

Packet decode(std::string_view bytes) {
  const Unpacked unpacked(bytes, {.bytes = kMaxMessageBytes});
  const PackView top = unpacked.root();
  if (top.array_size() < 1) fail_message("has no version");
  if (const int64_t version = top.item(0).integer();
      version != kProtocolVersion) {
    fail_message(
        fmt::format("of gang protocol version {}, this is version {} "
                    "(run the same dtune on all machines)",
                    version, kProtocolVersion));
  }
  if (top.array_size() != 6) fail_message("has not six parts");
  Packet packet;
  packet.message = read_message(top.item(1).text(), top.item(2));
  packet.sequence = top.item(3).integer();
  packet.ack = top.item(4).integer();
  packet.begun = top.item(5).integer();
  std::visit(RangeCheck{packet.message}, packet.message);
  return packet;
}

}  // namespace dtune::gang
