#include "dtune/parameter_server/ps_protocol.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "dtune/base/error.h"
#include "dtune/wire/codec.h"

namespace dtune::ps {
namespace {

using wire::AnyReal;
using wire::Between;
using wire::kCount;
using wire::kNatural;

static_assert(std::endian::native == std::endian::little,
              "floats travel as they are in memory");

constexpr int64_t kSliceUnit = 16;  // floats: a cache line

constexpr Between kMember{0, kMaxMembers - 1};
constexpr Between kMemberOrNone{-1, kMember.most};
constexpr Between kVersion{-1, kCount.most};  // of weights; -1: none
constexpr wire::Bytes kFloats{.least = sizeof(float),
                              .most = kPieceFloats * sizeof(float),
                              .unit = sizeof(float)};

template <class V>
void visit_totals(V& visit, LossTotals& m) {
  visit("loss", m.loss, AnyReal{});
  visit("weight", m.weight);
  visit("right", m.correct, kCount);
  visit("samples", m.samples, kCount);
}

}  // namespace

template <class V>
void fields(V& visit, Hello& m) {
  visit("nonce", m.nonce);
  visit("step", m.step, kNatural);
  visit("member", m.member, kMember);
  visit("parameters", m.parameters, kCount);
}

template <class V>
void fields(V& visit, Follow& m) {
  visit("step", m.step, kNatural);
  visit("server", m.server, kMember);
  visit("parameters", m.parameters, kCount);
}

template <class V>
void fields(V& visit, Lead& m) {
  visit("session", m.session);
  visit("step", m.step, kNatural);
}

template <class V>
void fields(V& visit, Present& m) {
  visit("session", m.session);
  visit("nonce", m.nonce);
  visit("member", m.member, kMember);
}

template <class V>
void fields(V& visit, Grant& m) {
  visit("session", m.session);
  visit("version", m.version, kVersion);
  visit("ticket", m.ticket, kCount);
  visit("clock", m.clock, kCount);
  visit("epoch", m.epoch, kCount);
  visit("number", m.number, kCount);
  visit("first_sample", m.first_sample, kCount);
  visit("first", m.first, kCount);
  visit("size", m.size, Between{1, kCount.most});
  visit("lr", m.lr);
}

template <class V>
void fields(V& visit, Piece& m) {
  visit("session", m.session);
  visit("content", m.content, Content::buffers);
  visit("key", m.key, kCount);
  visit("offset", m.offset, kCount);
  visit.bulk("floats", m.floats, kFloats);
}

template <class V>
void fields(V& visit, Push& m) {
  visit("session", m.session);
  visit("ticket", m.ticket, kCount);
  visit("version", m.version, kVersion);
  visit_totals(visit, m.totals);
  visit("squares", m.squares, AnyReal{});
  visit("seconds", m.seconds);
}

template <class V>
void fields(V& visit, Arrived& m) {
  visit("session", m.session);
  visit("member", m.member, kMember);
  visit("ticket", m.ticket, kCount);
}

template <class V>
void fields(V& visit, Served& m) {
  visit("session", m.session);
  visit("version", m.version, kVersion);
  visit("ticket", m.ticket, kCount);
  visit("min_clock", m.min_clock, kCount);
}

template <class V>
void fields(V& visit, Wait& m) {
  visit("session", m.session);
  visit("member", m.member, kMemberOrNone);
}

template <class V>
void fields(V& visit, Finish& m) {
  visit("session", m.session);
}

template <class V>
void fields(V& visit, Buffers& m) {
  visit("session", m.session);
}

template <class V>
void fields(V& visit, Final& m) {
  visit("session", m.session);
  visit("version", m.version, kVersion);
  visit("updates", m.updates, kCount);
  visit("position", m.position, kCount);
  visit_totals(visit, m.totals);
}

template <class V>
void fields(V& visit, WantState& m) {
  visit("session", m.session);
}

template <class V>
void fields(V& visit, State& m) {
  visit("session", m.session);
}

template <class V>
void fields(V& visit, Broken& m) {
  visit("session", m.session);
  visit("diverged", m.diverged);
  visit("why", m.why);
}

template <class V>
void fields(V& visit, Alive& m) {
  visit("session", m.session);
}

template <class V>
void fields(V& visit, Term& m) {
  visit("member", m.member, kMember);
  visit("ticket", m.ticket, kCount);
  visit("factor", m.factor);
}

template <class V>
void fields(V& visit, Combine& m) {
  visit("session", m.session);
  visit("sequence", m.sequence, kCount);
  visit("terms", m.terms);
  visit("wants_squares", m.wants_squares);
}

template <class V>
void fields(V& visit, Combined& m) {
  visit("session", m.session);
  visit("sequence", m.sequence, kCount);
  visit("squares", m.squares, AnyReal{});
}

template <class V>
void fields(V& visit, Apply& m) {
  visit("session", m.session);
  visit("sequence", m.sequence, kCount);
  visit("lr", m.lr);
  visit("number", m.number, kCount);
  visit("scale", m.scale, AnyReal{});
  visit("worker", m.worker, kMemberOrNone);
  visit("version", m.version, kVersion);
}

template <class V>
void fields(V& visit, Drop& m) {
  visit("session", m.session);
  visit("sequence", m.sequence, kCount);
  visit("member", m.member, kMember);
  visit("ticket", m.ticket, kCount);
}

template <class V>
void fields(V& visit, Serve& m) {
  visit("session", m.session);
  visit("sequence", m.sequence, kCount);
  visit("member", m.member, kMember);
  visit("ticket", m.ticket, kCount);
  visit("min_clock", m.min_clock, kCount);
}

template <class V>
void fields(V& visit, Forget& m) {
  visit("session", m.session);
  visit("sequence", m.sequence, kCount);
  visit("member", m.member, kMember);
}

namespace {

constexpr wire::Codec<Message> kCodec{
    {"hello",    "follow",     "lead",   "present", "grant",  "piece",
     "push",     "arrived",    "served", "wait",    "finish", "buffers",
     "final",    "want_state", "state",  "broken",  "alive",  "combine",
     "combined", "apply",      "drop",   "serve",   "forget"}};

}  // namespace

Layout::Layout(int64_t parameters, int servers)
    : parameters_(parameters), servers_(servers) {
  DTUNE_CHECK(parameters >= 0 && servers >= 1);
}

Range Layout::slice(int server) const {
  const int64_t units = (parameters_ + kSliceUnit - 1) / kSliceUnit;
  const int64_t each_units = (units + servers_ - 1) / servers_;
  const int64_t length = each_units * kSliceUnit;
  return {std::min(server * length, parameters_),
          std::min((server + 1) * length, parameters_)};
}

std::vector<Range> Layout::pieces(int server) const {
  const Range all = slice(server);
  std::vector<Range> pieces;
  const int64_t count = (all.size() + kPieceFloats - 1) / kPieceFloats;
  for (int64_t i = 0; i < count; ++i) {
    pieces.push_back({all.begin + all.size() * i / count,
                      all.begin + all.size() * (i + 1) / count});
  }
  return pieces;
}

Frames encode(Message message, Frames prefix) {
  return kCodec.encode(std::move(message), std::move(prefix));
}

Message decode(std::span<const std::string> frames) {
  return kCodec.decode(frames);
}

std::optional<Message> try_decode(std::span<const std::string> frames) {
  try {
    return decode(frames);
  } catch (const Error&) {
    return std::nullopt;
  }
}

uint64_t session_of(const Message& message) {
  return std::visit(
      [](const auto& m) -> uint64_t {
        if constexpr (requires { m.session; }) {
          return m.session;
        } else {
          return 0;
        }
      },
      message);
}

std::string_view bytes_of(std::span<const float> floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size_bytes()};
}

void copy_floats(std::string_view bytes, std::span<float> to) {
  DTUNE_CHECK(bytes.size() == to.size_bytes());
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
}

}  // namespace dtune::ps
