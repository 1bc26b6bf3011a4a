#include "dtune/comm/file_protocol.h"

#include <algorithm>
#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/comm/file_hash.h"

namespace dtune::files {
namespace {

constexpr std::string_view kMagic = "dtf\1";
constexpr size_t kMaxText = 2000;  // of a refusal

[[noreturn]] void fail_file(const std::string& text) {
  throw Error(ErrorKind::comm, "file message: " + text);
}

// One description of each message's fields serves writing and reading.
template <class M, class V>
void fields(V& visit, M& m) {
  using T = std::remove_const_t<M>;
  visit(m.request);
  if constexpr (requires { m.name; }) visit(m.name);
  if constexpr (std::same_as<T, Put>) visit(m.ticket);
  if constexpr (std::same_as<T, Read>) visit(m.hash);
  if constexpr (requires { m.offset; }) visit(m.offset);
  if constexpr (requires { m.size; }) visit(m.size);
  if constexpr (requires { m.hash; } && !std::same_as<T, Read>) visit(m.hash);
  if constexpr (std::same_as<T, Refused>) {
    visit(m.why);
    visit(m.text);
  }
}

struct Writer {
  std::string& out;

  template <std::unsigned_integral T>
  void operator()(T value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
    }
  }
  void operator()(Why why) { (*this)(static_cast<uint8_t>(why)); }
  void operator()(const std::string& text) {
    const size_t size = std::min(text.size(), kMaxText);
    (*this)(static_cast<uint16_t>(size));
    out.append(text, 0, size);
  }
};

struct Reader {
  std::string_view rest;

  std::string_view take(size_t size) {
    if (rest.size() < size) fail_file("too short");
    const std::string_view out = rest.substr(0, size);
    rest.remove_prefix(size);
    return out;
  }
  template <std::unsigned_integral T>
  void operator()(T& value) {
    value = 0;
    size_t shift = 0;
    for (const char byte : take(sizeof value)) {
      value = static_cast<T>(
          value | static_cast<T>(T{static_cast<unsigned char>(byte)} << shift));
      shift += 8;
    }
  }
  void operator()(Why& why) {
    uint8_t number = 0;
    (*this)(number);
    if (number > static_cast<uint8_t>(Why::failed)) fail_file("unknown reason");
    why = static_cast<Why>(number);
  }
  void operator()(std::string& text) {
    uint16_t size = 0;
    (*this)(size);
    if (size > kMaxText) fail_file("a text that is too long");
    text = take(size);
  }
};

// What no honest peer says.
template <class T>
void check(const T& message) {
  if constexpr (requires { message.name; }) {
    if (!is_name(message.name)) fail_file("a name that is none");
  }
  if constexpr (requires { message.size; }) {
    if (message.size > kMaxFileBytes) fail_file("a file that is too large");
  }
  if constexpr (requires { message.offset; }) {
    if (message.offset > kMaxFileBytes) fail_file("a place beyond all files");
  }
  if constexpr (std::same_as<T, Read>) {
    if (message.size == 0 || message.size > kChunkBytes) {
      fail_file("asks for too much at once");
    }
  }
}

template <class T>
Message read_as(std::span<const std::string> frames, Reader reader) {
  T message;
  fields(reader, message);
  if (!reader.rest.empty()) fail_file("too long");
  check(message);
  if constexpr (requires { message.data; }) {
    if (frames.size() != 2) fail_file("lacks its data");
    if (frames[1].size() > kChunkBytes) fail_file("too much data at once");
    if (file_hash(frames[1]) != message.hash) fail_file("damaged on its way");
    message.data = frames[1];
  } else if (frames.size() != 1) {
    fail_file("followed by what belongs to nothing");
  }
  return message;
}

template <size_t I = 0>
Message read_type(size_t type, std::span<const std::string> frames,
                  Reader reader) {
  if constexpr (I == std::variant_size_v<Message>) {
    fail_file(fmt::format("unknown type {}", type));
  } else {
    if (type != I) return read_type<I + 1>(type, frames, reader);
    return read_as<std::variant_alternative_t<I, Message>>(frames, reader);
  }
}

bool is_name_part(std::string_view part) {
  constexpr std::string_view kSigns = "-_.";
  if (part.empty() || part.front() == '.') return false;
  for (const char c : part) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9');
    if (!plain && kSigns.find(c) == std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

bool is_name(std::string_view name) {
  if (name.size() > kMaxName) return false;
  while (true) {
    const size_t slash = name.find('/');
    if (!is_name_part(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

Frames encode(Message message) {
  std::string header(kMagic);
  header.push_back(static_cast<char>(message.index()));
  Frames frames{std::move(header)};
  std::visit(
      [&frames](auto& m) {
        constexpr bool kHasData = requires { m.data; };
        if constexpr (kHasData) m.hash = file_hash(m.data);
        Writer writer{frames.front()};
        fields(writer, m);
        if constexpr (kHasData) frames.push_back(std::move(m.data));
      },
      message);
  return frames;
}

Message decode(std::span<const std::string> frames) {
  if (frames.empty()) fail_file("empty");
  Reader reader{frames.front()};
  if (reader.take(3) != kMagic.substr(0, 3)) fail_file("is none");
  if (reader.take(1) != kMagic.substr(3)) {
    fail_file("of another version (run the same dtune on all machines)");
  }
  uint8_t type = 0;
  reader(type);
  return read_type(type, frames, reader);
}

uint64_t request_of(const Message& message) {
  return std::visit([](const auto& m) { return m.request; }, message);
}

}  // namespace dtune::files
