#include "dtune/comm/file_protocol.h"

#include <string_view>
#include <utility>

#include "dtune/comm/file_hash.h"
#include "dtune/wire/codec.h"

namespace dtune::files {
namespace {

using wire::Between;

constexpr Between kOffset{0, int64_t{kMaxFileBytes}};
constexpr wire::Text kName{is_name, "is not a valid name of a file"};
constexpr wire::Bytes kData{.most = kChunkBytes};

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

template <class V>
void fields(V& visit, Find& m) {
  visit("request", m.request);
  visit("name", m.name, kName);
}

template <class V>
void fields(V& visit, Found& m) {
  visit("request", m.request);
  visit("size", m.size, kOffset);
  visit("hash", m.hash);
}

template <class V>
void fields(V& visit, Read& m) {
  visit("request", m.request);
  visit("name", m.name, kName);
  visit("hash", m.hash);
  visit("offset", m.offset, kOffset);
  visit("size", m.size, Between{1, kChunkBytes});
}

template <class V>
void fields(V& visit, Chunk& m) {
  visit("request", m.request);
  visit("offset", m.offset, kOffset);
  visit("hash", m.hash);
  visit.bulk("data", m.data, kData);
}

template <class V>
void fields(V& visit, Put& m) {
  visit("request", m.request);
  visit("name", m.name, kName);
  visit("ticket", m.ticket);
  visit("size", m.size, kOffset);
  visit("hash", m.hash);
}

template <class V>
void fields(V& visit, Accepted& m) {
  visit("request", m.request);
  visit("offset", m.offset, kOffset);
}

template <class V>
void fields(V& visit, Write& m) {
  visit("request", m.request);
  visit("name", m.name, kName);
  visit("offset", m.offset, kOffset);
  visit("hash", m.hash);
  visit.bulk("data", m.data, kData);
}

template <class V>
void fields(V& visit, Stored& m) {
  visit("request", m.request);
}

template <class V>
void fields(V& visit, Refused& m) {
  visit("request", m.request);
  visit("why", m.why, Why::failed);
  visit("text", m.text);
}

namespace {

constexpr wire::Codec<Message> kCodec{{"find", "found", "read", "chunk", "put",
                                       "accepted", "write", "stored",
                                       "refused"}};

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
  std::visit(
      [](auto& m) {
        if constexpr (requires { m.data; }) m.hash = file_hash(m.data);
      },
      message);
  return kCodec.encode(std::move(message), {});
}

Message decode(std::span<const std::string> frames) {
  Message message = kCodec.decode(frames);
  std::visit(
      [&](const auto& m) {
        if constexpr (requires { m.data; }) {
          if (file_hash(m.data) == m.hash) return;
          wire::refuse(kCodec.type_name(message),
                       {"data", "was damaged on its way"});
        }
      },
      message);
  return message;
}

uint64_t request_of(const Message& message) {
  return std::visit([](const auto& m) { return m.request; }, message);
}

}  // namespace dtune::files
