#include "dtune/report/protobuf.h"

#include <bit>
#include <cstring>

namespace dtune {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

}  // namespace

void ProtoMessage::varint(uint64_t value) {
  while (value >= 0x80) {
    bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  bytes_ += static_cast<char>(value);
}

void ProtoMessage::key(int field, int wire_type) {
  varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

template <class Number>
void ProtoMessage::fixed(Number value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes_.append(raw, sizeof value);
}

ProtoMessage& ProtoMessage::integer(int field, int64_t value) {
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::real(int field, double value) {
  key(field, kFixed64);
  fixed(value);
  return *this;
}

ProtoMessage& ProtoMessage::real32(int field, float value) {
  key(field, kFixed32);
  fixed(value);
  return *this;
}

ProtoMessage& ProtoMessage::text(int field, std::string_view value) {
  key(field, kBytes);
  varint(value.size());
  bytes_ += value;
  return *this;
}

ProtoMessage& ProtoMessage::message(int field, const ProtoMessage& value) {
  return text(field, value.bytes());
}

}  // namespace dtune
