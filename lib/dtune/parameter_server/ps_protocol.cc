#include "dtune/parameter_server/ps_protocol.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune::ps {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats travel as they are in memory");

constexpr std::string_view kMark = "dps1";
constexpr int64_t kSliceUnit = 16;  // floats: a cache line

[[noreturn]] void fail_ps(const std::string& what) {
  throw Error(ErrorKind::comm, "parameter server: message " + what);
}

// One description of each message's fields serves writing and reading.
template <class V, class... F>
void each(V& visit, F&... fields) {
  (visit(fields), ...);
}

template <class V, class M>
void fields(V& v, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (requires { m.session; }) v(m.session);
  if constexpr (requires { m.sequence; }) v(m.sequence);
  if constexpr (std::same_as<T, Hello>) {
    each(v, m.nonce, m.step, m.member, m.parameters);
  } else if constexpr (std::same_as<T, Follow>) {
    each(v, m.step, m.server, m.parameters);
  } else if constexpr (std::same_as<T, Lead>) {
    v(m.step);
  } else if constexpr (std::same_as<T, Present>) {
    each(v, m.nonce, m.member);
  } else if constexpr (std::same_as<T, Grant>) {
    each(v, m.version, m.ticket, m.clock, m.epoch, m.number, m.first_sample,
         m.first, m.size, m.lr);
  } else if constexpr (std::same_as<T, Piece>) {
    each(v, m.content, m.key, m.offset);
  } else if constexpr (std::same_as<T, Push>) {
    each(v, m.ticket, m.version, m.loss, m.weight, m.right, m.samples,
         m.squares, m.seconds);
  } else if constexpr (std::same_as<T, Arrived> || std::same_as<T, Drop>) {
    each(v, m.member, m.ticket);
  } else if constexpr (std::same_as<T, Served>) {
    each(v, m.version, m.ticket, m.min_clock);
  } else if constexpr (std::same_as<T, Wait> || std::same_as<T, Forget>) {
    v(m.member);
  } else if constexpr (std::same_as<T, Final>) {
    each(v, m.version, m.updates, m.position, m.loss, m.weight, m.right,
         m.samples);
  } else if constexpr (std::same_as<T, Broken>) {
    each(v, m.diverged, m.why);
  } else if constexpr (std::same_as<T, Combine>) {
    each(v, m.terms, m.wants_squares);
  } else if constexpr (std::same_as<T, Combined>) {
    v(m.squares);
  } else if constexpr (std::same_as<T, Apply>) {
    each(v, m.lr, m.number, m.scale, m.worker, m.version);
  } else if constexpr (std::same_as<T, Serve>) {
    each(v, m.member, m.ticket, m.min_clock);
  }
}

struct Writer {
  std::string bytes;

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    const size_t size = std::min(text.size(), kMaxTextBytes);
    (*this)(static_cast<uint32_t>(size));
    bytes.append(text, 0, size);
  }
  void operator()(const std::vector<Term>& terms) {
    (*this)(static_cast<uint32_t>(terms.size()));
    for (const Term& term : terms) {
      each(*this, term.member, term.ticket, term.factor);
    }
  }
};

struct Reader {
  std::string_view bytes;

  std::string_view take(size_t size) {
    if (size > bytes.size()) fail_ps("ends too early");
    const std::string_view taken = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return taken;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void operator()(T& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void operator()(bool& value) {
    uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) fail_ps("has a flag that is neither 0 nor 1");
    value = byte == 1;
  }
  void operator()(Content& value) {
    uint8_t byte = 0;
    (*this)(byte);
    if (byte > static_cast<uint8_t>(Content::buffers)) fail_ps("of no content");
    value = static_cast<Content>(byte);
  }
  void operator()(std::string& text) {
    uint32_t size = 0;
    (*this)(size);
    if (size > kMaxTextBytes) fail_ps("with too long a text");
    text = take(size);
  }
  void operator()(std::vector<Term>& terms) {
    uint32_t count = 0;
    (*this)(count);
    if (count > kMaxMembers) fail_ps("with too many terms");
    constexpr size_t kTermBytes = 20;
    if (bytes.size() < count * kTermBytes) fail_ps("ends too early");
    terms.resize(count);
    for (Term& term : terms) each(*this, term.member, term.ticket, term.factor);
  }
};

void check_range(int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    fail_ps(
        fmt::format("with {} where {} to {} are possible", value, least, most));
  }
}

constexpr int64_t kMost = int64_t{1} << 60;

// What no type says.
template <class M>
void check_fields(const M& m) {
  if constexpr (requires { m.member; }) {
    const int64_t least = std::same_as<M, Wait> ? -1 : 0;
    check_range(m.member, least, kMaxMembers - 1);
  }
  if constexpr (requires { m.server; }) {
    check_range(m.server, 0, kMaxMembers - 1);
  }
  if constexpr (requires { m.worker; }) {
    check_range(m.worker, -1, kMaxMembers - 1);
  }
  if constexpr (requires { m.terms; }) {
    for (const Term& term : m.terms) {
      check_range(term.member, 0, kMaxMembers - 1);
    }
  }
  if constexpr (requires { m.samples; }) check_range(m.samples, 0, kMost);
  if constexpr (requires { m.right; }) check_range(m.right, 0, kMost);
  if constexpr (std::same_as<M, Grant>) {
    check_range(m.size, 1, kMost);
    check_range(m.first, 0, kMost);
    check_range(m.first_sample, 0, kMost);
  }
}

// The content of the second frame.
std::string_view floats_of(std::span<const std::string> frames) {
  const std::string& floats = frames[1];
  if (floats.empty() || floats.size() % sizeof(float) != 0 ||
      floats.size() > kPieceFloats * sizeof(float)) {
    fail_ps(fmt::format("with a piece of {} bytes", floats.size()));
  }
  return floats;
}

template <size_t I = 0>
Message make_type(size_t type) {
  if constexpr (I < std::variant_size_v<Message>) {
    if (type == I) return Message(std::in_place_index<I>);
    return make_type<I + 1>(type);
  } else {
    fail_ps(fmt::format("of unknown type {}", type));
  }
}

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

Frames encode(const Message& message, Frames prefix) {
  Writer writer{std::string(kMark)};
  writer(static_cast<uint8_t>(message.index()));
  std::visit([&](const auto& m) { fields(writer, m); }, message);
  prefix.push_back(std::move(writer.bytes));
  if (const auto* piece = std::get_if<Piece>(&message)) {
    prefix.emplace_back(piece->floats);
  }
  return prefix;
}

Message decode(std::span<const std::string> frames) {
  if (frames.empty()) fail_ps("without a frame");
  Reader reader{frames[0]};
  if (reader.take(kMark.size()) != kMark) {
    fail_ps("is none of this version's (run the same dtune on all machines)");
  }
  uint8_t type = 0;
  reader(type);
  Message message = make_type(type);
  std::visit([&](auto& m) { fields(reader, m); }, message);
  if (!reader.bytes.empty()) fail_ps("is followed by bytes of nothing");
  auto* piece = std::get_if<Piece>(&message);
  if (frames.size() != (piece != nullptr ? 2U : 1U)) {
    fail_ps(fmt::format("of {} frames", frames.size()));
  }
  if (piece != nullptr) piece->floats = floats_of(frames);
  std::visit([](const auto& m) { check_fields(m); }, message);
  return message;
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
