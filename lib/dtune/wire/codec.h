// The messages of one conversation as frames, and back.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "dtune/wire/fields.h"

namespace dtune::wire {

// The one kind of error that bad bytes make, Error(comm):
// "message <type>: '<field>' <what>".
[[noreturn]] void refuse(std::string_view type, const BadField& bad);

// A first frame that has been parsed: [version, type, {field: value, ...}].
class Head {
 public:
  // Throws Error(comm), never anything else.
  Head(std::string_view bytes, int version);

  std::string_view type() const { return type_; }
  PackView fields() const { return *fields_; }

 private:
  std::optional<Unpacked> unpacked_;
  std::string_view type_;
  std::optional<PackView> fields_;
};

// Begins a first frame; `count` fields follow.
void begin_head(PackWriter& out, int version, const char* type, size_t count);
// What was written. Throws Error(comm) where it is larger than kMaxFrameBytes.
std::string finish_head(const PackWriter& out, const char* type);

// Message is a std::variant of structs that have fields (fields.h). `beside`
// are structs whose fields travel in the same map as the message's own.
template <class Message>
struct Codec {
  // The word of each type, in the order of Message.
  std::array<const char*, std::variant_size_v<Message>> types;
  int version = kVersion;

  const char* type_name(const Message& message) const {
    return types.at(message.index());
  }

  // Appended to `prefix` (a router's peer). Throws Error(comm) where the first
  // frame is larger than kMaxFrameBytes.
  template <class... Beside>
  Frames encode(Message message, Frames prefix = {}, Beside&... beside) const {
    const char* type = type_name(message);
    const size_t at = prefix.size();
    prefix.emplace_back();
    prefix[at] = std::visit(
        [&](auto& m) { return write(type, prefix, m, beside...); }, message);
    return prefix;
  }

  // Throws Error(comm), never anything else, whatever the bytes are. Takes
  // memory in proportion to their size, plus 4 MiB at most.
  template <class... Beside>
  Message decode(std::span<const std::string> frames, Beside&... beside) const {
    if (frames.empty()) refuse("", {"", "has no frame"});
    return parse(frames.front(), frames.subspan(1), beside...);
  }
  // Of a message of one frame.
  template <class... Beside>
  Message decode(std::string_view frame, Beside&... beside) const {
    return parse(frame, {}, beside...);
  }

 private:
  template <class... Beside>
  Message parse(std::string_view first, std::span<const std::string> bulk,
                Beside&... beside) const {
    const Head head(first, version);
    Message message = read(head, bulk, beside...);
    if (!bulk.empty()) refuse(head.type(), {"", "has too many frames"});
    return message;
  }

  template <class... Structs>
  std::string write(const char* type, Frames& frames,
                    Structs&... structs) const {
    FieldCounter counter;
    (fields(counter, structs), ...);
    PackWriter out;
    begin_head(out, version, type, counter.count);
    FieldWriter writer(out, frames);
    (fields(writer, structs), ...);
    return finish_head(out, type);
  }

  template <size_t I = 0, class... Beside>
  Message read(const Head& head, std::span<const std::string>& bulk,
               Beside&... beside) const {
    if constexpr (I == std::variant_size_v<Message>) {
      refuse(head.type(), {"", "is of an unknown type"});
    } else {
      if (head.type() != types[I]) return read<I + 1>(head, bulk, beside...);
      std::variant_alternative_t<I, Message> message;
      try {
        FieldReader reader(head.fields(), bulk);
        fields(reader, message);
        (fields(reader, beside), ...);
      } catch (const BadField& bad) {
        refuse(head.type(), bad);
      }
      return message;
    }
  }
};

}  // namespace dtune::wire
