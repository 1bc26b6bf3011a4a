#include "dtune/cluster/protocol.h"

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#define MSGPACK_NO_BOOST  // NOLINT: the library's own switch
#include <msgpack.hpp>

#include "dtune/base/error.h"

namespace dtune {
namespace {

using namespace control;  // NOLINT: this file is the namespace's inside

using Packer = msgpack::packer<msgpack::sbuffer>;

// In the order of control::Message.
constexpr std::array<const char*, std::variant_size_v<Message>> kTypes = {
    "hello",  "welcome",  "heartbeat", "slot_up", "slot_down", "assign",
    "extend", "pause",    "cut",       "kill",    "report",    "ack",
    "ended",  "progress", "stop",      "bye",     "enrol",     "enrolled"};

constexpr std::array<const char*, 4> kOutcomes = {"stopped", "complete",
                                                  "failed", "temporary"};

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorKind::comm, "message: " + text);
}

// One description of each message's fields serves writing, counting and
// reading: `visit` is called with (name, field).

template <class V, class M>
void lease(V& visit, M& m) {
  visit("slot", m.slot);
  visit("trial", m.trial);
  visit("attempt", m.attempt);
}

template <class M, class V>
void fields(V& visit, M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::same_as<T, Hello>) {
    visit("study", m.study_id);
    visit("node", m.node);
    visit("agent", m.agent);
    visit("slots", m.slots);
    visit("threads", m.threads);
    visit("pid", m.pid);
  } else if constexpr (std::same_as<T, Welcome>) {
    visit("study", m.study_id);
    visit("session", m.session);
    visit("recipe", m.recipe_yaml);
    visit("prepared", m.prepared_data);
    visit("deterministic", m.deterministic);
    visit("heartbeat_ns", m.heartbeat_ns);
    visit("lease_ns", m.lease_ns);
    visit("grace_ns", m.grace_ns);
    visit("memory_mb", m.memory_mb);
    visit("warm_trials", m.warm_trials);
    visit("files_endpoint", m.files_endpoint);
    visit("files_key", m.files_key);
    visit("probe", m.probe);
    visit("probe_word", m.probe_word);
  } else if constexpr (std::same_as<T, SlotUp>) {
    visit("slot", m.slot);
    visit("pid", m.pid);
    visit("public_key", m.public_key);
  } else if constexpr (std::same_as<T, SlotDown>) {
    visit("slot", m.slot);
    visit("gone", m.gone);
    visit("detail", m.detail);
  } else if constexpr (std::same_as<T, Assign>) {
    lease(visit, m);
    visit("kind", m.kind);
    visit("point", m.point);
    visit("seed", m.seed);
    visit("horizon", m.horizon);
    visit("target", m.target);
    visit("resume_step", m.resume_step);
    visit("finish", m.finish);
    visit("threads", m.threads);
    visit("checkpoint", m.checkpoint);
    visit("model", m.model_file);
    visit("gang", m.gang);
    visit("member", m.member);
    visit("members", m.members);
    visit("gang_endpoint", m.gang_endpoint);
    visit("gang_key", m.gang_key);
    visit("gang_address", m.gang_address);
    visit("origin", m.origin);
    visit("chosen", m.chosen);
  } else if constexpr (std::same_as<T, Extend>) {
    lease(visit, m);
    visit("target", m.target);
  } else if constexpr (std::same_as<T, Pause> || std::same_as<T, Cut>) {
    lease(visit, m);
  } else if constexpr (std::same_as<T, Kill>) {
    lease(visit, m);
    visit("reason", m.reason);
    visit("why", m.why);
  } else if constexpr (std::same_as<T, Report>) {
    lease(visit, m);
    visit("checkpointed", m.checkpointed);
    visit("step", m.report.step);
    visit("metrics", m.report.metrics);
    visit("seconds", m.report.seconds);
    visit("checkpoint_seconds", m.report.checkpoint_seconds);
    visit("last", m.report.last);
  } else if constexpr (std::same_as<T, Ack>) {
    lease(visit, m);
    visit("step", m.step);
  } else if constexpr (std::same_as<T, Ended>) {
    lease(visit, m);
    visit("outcome", m.outcome);
    visit("reason", m.reason);
    visit("detail", m.detail);
    visit("exit_code", m.exit_code);
    visit("signal", m.signal);
    visit("steps", m.steps);
    visit("metrics", m.metrics);
  } else if constexpr (std::same_as<T, Progress>) {
    lease(visit, m);
    visit("phase", m.phase);
    visit("fraction", m.fraction);
    visit("samples_per_second", m.samples_per_second);
    visit("resident_bytes", m.resident_bytes);
    visit("activity", m.activity);
  } else if constexpr (std::same_as<T, Stop>) {
    visit("now", m.now);
  } else if constexpr (std::same_as<T, Bye>) {
    visit("again", m.again);
    visit("why", m.why);
  } else if constexpr (std::same_as<T, Enrol>) {
    visit("secret", m.secret);
    visit("node", m.node);
  } else if constexpr (std::same_as<T, Enrolled>) {
    visit("study", m.study_id);
  } else {
    static_assert(std::same_as<T, Heartbeat>);
  }
}

struct Counter {
  uint32_t count = 0;
  template <class T>
  void operator()(const char*, const T&) {
    ++count;
  }
};

struct Writer {
  msgpack::sbuffer& buffer;
  Packer& packer;

  template <class T>
  void operator()(const char* name, const T& field) {
    packer.pack(name);
    put(field);
  }

  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, std::string>
  void put(const T& value) { packer.pack(value); }
  void put(const Value& value) {
    if (const double* real = std::get_if<double>(&value)) {
      put_real(*real);
    } else {
      std::visit([this](const auto& v) { packer.pack(v); }, value);
    }
  }
  // As float 64. The packer would make whole reals integers, and 1 is none of
  // the choices 0.5 and 1.0.
  void put_real(double real) {
    const auto bits = std::bit_cast<uint64_t>(real);
    char bytes[9] = {'\xcb'};
    for (int i = 0; i < 8; ++i) {
      bytes[1 + i] = static_cast<char>(bits >> (56 - 8 * i) & 0xff);
    }
    buffer.write(bytes, sizeof bytes);
  }
  void put(TrialKind kind) { packer.pack(kind == TrialKind::final); }
  void put(Reason reason) { packer.pack(to_string(reason)); }
  void put(Outcome outcome) { packer.pack(kOutcomes.at(size_t(outcome))); }
  template <class T>
  void put(const std::map<std::string, T>& map) {
    packer.pack_map(static_cast<uint32_t>(map.size()));
    for (const auto& [name, value] : map) {
      packer.pack(name);
      put(value);
    }
  }
};

struct Reader {
  const char* type;
  const msgpack::object_map& map;

  template <class T>
  void operator()(const char* name, T& field) {
    const msgpack::object* object = find(name);
    if (object == nullptr) fail(fmt::format("{} lacks '{}'", type, name));
    try {
      get(*object, field);
    } catch (const msgpack::type_error&) {
      fail(fmt::format("{}: '{}' has the wrong type", type, name));
    } catch (const Error& e) {
      fail(fmt::format("{}: '{}': {}", type, name, e.what()));
    }
  }

  const msgpack::object* find(std::string_view name) const {
    for (uint32_t i = 0; i < map.size; ++i) {
      const msgpack::object& key = map.ptr[i].key;
      if (key.type == msgpack::type::STR && key.via.str.size == name.size() &&
          std::memcmp(key.via.str.ptr, name.data(), name.size()) == 0) {
        return &map.ptr[i].val;
      }
    }
    return nullptr;
  }

  template <class T>
  requires std::is_arithmetic_v<T> || std::same_as<T, std::string>
  static void get(const msgpack::object& object, T& value) {
    object.convert(value);
  }
  static void get(const msgpack::object& object, Value& value) {
    switch (object.type) {
      case msgpack::type::BOOLEAN:
        value = object.via.boolean;
        return;
      case msgpack::type::POSITIVE_INTEGER:
      case msgpack::type::NEGATIVE_INTEGER:
        value = object.as<int64_t>();
        return;
      case msgpack::type::FLOAT32:
      case msgpack::type::FLOAT64:
        value = object.via.f64;
        return;
      default:
        value = object.as<std::string>();
    }
  }
  static void get(const msgpack::object& object, TrialKind& kind) {
    kind = object.as<bool>() ? TrialKind::final : TrialKind::search;
  }
  static void get(const msgpack::object& object, Reason& reason) {
    reason = parse_reason(object.as<std::string>());
  }
  static void get(const msgpack::object& object, Outcome& outcome) {
    const auto word = object.as<std::string>();
    for (size_t i = 0; i < kOutcomes.size(); ++i) {
      if (word == kOutcomes[i]) {
        outcome = static_cast<Outcome>(i);
        return;
      }
    }
    throw Error(ErrorKind::comm, "unknown word '" + word + "'");
  }
  template <class T>
  static void get(const msgpack::object& object,
                  std::map<std::string, T>& out) {
    if (object.type != msgpack::type::MAP) throw msgpack::type_error();
    out.clear();
    const msgpack::object_map& entries = object.via.map;
    for (uint32_t i = 0; i < entries.size; ++i) {
      get(entries.ptr[i].val, out[entries.ptr[i].key.as<std::string>()]);
    }
  }
};

template <size_t I = 0>
Message read(std::string_view type, const msgpack::object_map& map) {
  if constexpr (I == std::variant_size_v<Message>) {
    fail(fmt::format("unknown type '{}'", type.substr(0, 40)));
  } else {
    if (type != kTypes[I]) return read<I + 1>(type, map);
    std::variant_alternative_t<I, Message> message;
    Reader reader{kTypes[I], map};
    fields(reader, message);
    return message;
  }
}

// A slot number indexes tables and a step sizes loops: neither is taken on
// trust.
void check_ranges(const Message& message) {
  const int slot = slot_of(message);
  if (slot < -1 || slot >= kMaxSlots) {
    fail(fmt::format("{}: no such slot: {}", type_name(message), slot));
  }
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->slots < 0 || hello->slots > kMaxSlots || hello->threads < 1) {
      fail(fmt::format("hello: {} slots of {} threads (1 to {} slots)",
                       hello->slots, hello->threads, kMaxSlots));
    }
  }
  if (const auto* report = std::get_if<Report>(&message)) {
    if (report->report.step < 1) fail("report: steps start with 1");
  }
}

msgpack::object_handle parse(std::string_view bytes) {
  if (bytes.size() > kMaxMessageBytes) {
    fail(fmt::format("{} bytes, {} are allowed", bytes.size(),
                     kMaxMessageBytes));
  }
  // The parser keeps its own stack and checks each limit before it allocates.
  const msgpack::unpack_limit limit(/*array=*/16, /*map=*/4096,
                                    /*str=*/kMaxMessageBytes, /*bin=*/0,
                                    /*ext=*/0, /*depth=*/6);
  size_t end = 0;
  msgpack::object_handle handle;
  try {
    msgpack::unpack(handle, bytes.data(), bytes.size(), end, nullptr, nullptr,
                    limit);
  } catch (const std::exception& e) {
    fail(fmt::format("{} bytes that are no message ({})", bytes.size(),
                     e.what()));
  }
  if (end != bytes.size()) fail("followed by bytes that belong to nothing");
  return handle;
}

}  // namespace

const char* type_name(const Message& message) {
  return kTypes.at(message.index());
}

int slot_of(const Message& message) {
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

std::string encode(const Message& message) {
  msgpack::sbuffer buffer(256);
  Packer packer(buffer);
  packer.pack_array(3);
  packer.pack(kProtocolVersion);
  packer.pack(type_name(message));
  std::visit(
      [&](const auto& m) {
        Counter counter;
        fields(counter, m);
        packer.pack_map(counter.count);
        Writer writer{buffer, packer};
        fields(writer, m);
      },
      message);
  if (buffer.size() > kMaxMessageBytes) {
    fail(fmt::format("{} of {} bytes, {} are allowed", type_name(message),
                     buffer.size(), kMaxMessageBytes));
  }
  return {buffer.data(), buffer.size()};
}

Message decode(std::string_view bytes) {
  const msgpack::object_handle handle = parse(bytes);
  const msgpack::object& top = handle.get();
  if (top.type != msgpack::type::ARRAY || top.via.array.size < 1) {
    fail("is no [version, type, fields]");
  }
  const msgpack::object* part = top.via.array.ptr;
  if (part[0].type != msgpack::type::POSITIVE_INTEGER) fail("has no version");
  if (part[0].via.u64 != uint64_t{kProtocolVersion}) {
    fail(
        fmt::format("of protocol version {}, this is version {} (run the same "
                    "dtune on all machines)",
                    part[0].via.u64, kProtocolVersion));
  }
  if (top.via.array.size != 3 || part[1].type != msgpack::type::STR ||
      part[2].type != msgpack::type::MAP) {
    fail("is no [version, type, fields]");
  }
  Message message =
      read({part[1].via.str.ptr, part[1].via.str.size}, part[2].via.map);
  check_ranges(message);
  return message;
}

}  // namespace dtune
