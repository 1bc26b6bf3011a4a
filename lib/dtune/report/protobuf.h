// Messages in the wire format of Protocol Buffers, without their schemas:
// https://protobuf.dev/programming-guides/encoding. Enough to write files that
// other programs read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dtune {

// A message under construction; the fields are those of its .proto file.
class ProtoMessage {
 public:
  ProtoMessage& integer(int field, int64_t value);
  ProtoMessage& real(int field, double value);            // double
  ProtoMessage& real32(int field, float value);           // float
  ProtoMessage& text(int field, std::string_view value);  // string, bytes
  ProtoMessage& message(int field, const ProtoMessage& value);

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value);
  void key(int field, int wire_type);
  template <class Number>
  void fixed(Number value);

  std::string bytes_;
};

}  // namespace dtune
