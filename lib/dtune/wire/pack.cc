#include "dtune/wire/pack.h"

#include <bit>

#include <fmt/format.h>

#define MSGPACK_NO_BOOST  // NOLINT: the library's own switch
#include <msgpack.hpp>

#include "dtune/wire/frames.h"

namespace dtune::wire {
namespace {

namespace type = msgpack::type;

[[noreturn]] void refuse(std::string what) {
  throw BadField{"", std::move(what)};
}

const msgpack::object& as_object(const void* object) {
  return *static_cast<const msgpack::object*>(object);
}

const msgpack::object& expect(const void* object, type::object_type wanted,
                              const char* name) {
  const msgpack::object& value = as_object(object);
  if (value.type != wanted) refuse(fmt::format("is not {}", name));
  return value;
}

}  // namespace

void BadField::inside(std::string_view outer) {
  const bool dot = !field.empty() && field.front() != '[';
  field = fmt::format("{}{}{}", outer, dot ? "." : "", field);
}

struct PackWriter::Impl {
  msgpack::sbuffer buffer{512};
  msgpack::packer<msgpack::sbuffer> packer{buffer};
};

PackWriter::PackWriter() : impl_(std::make_unique<Impl>()) {}
PackWriter::~PackWriter() = default;

void PackWriter::begin_array(size_t size) {
  impl_->packer.pack_array(static_cast<uint32_t>(size));
}
void PackWriter::begin_map(size_t size) {
  impl_->packer.pack_map(static_cast<uint32_t>(size));
}
void PackWriter::integer(int64_t value) { impl_->packer.pack(value); }
void PackWriter::natural(uint64_t value) { impl_->packer.pack(value); }
void PackWriter::boolean(bool value) { impl_->packer.pack(value); }

// As float 64. The library would write whole reals as integers: 1 is not the
// choice 1.0, and 2^63 and more would not read back.
void PackWriter::real(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  char bytes[9] = {'\xcb'};
  for (int i = 0; i < 8; ++i) {
    bytes[1 + i] = static_cast<char>(bits >> (56 - 8 * i) & 0xff);
  }
  impl_->buffer.write(bytes, sizeof bytes);
}

void PackWriter::text(std::string_view value) {
  const auto size = static_cast<uint32_t>(value.size());
  impl_->packer.pack_str(size);
  impl_->packer.pack_str_body(value.data(), size);
}

std::string_view PackWriter::bytes() const {
  return {impl_->buffer.data(), impl_->buffer.size()};
}

PackView::Kind PackView::kind() const {
  switch (as_object(object_).type) {
    case type::POSITIVE_INTEGER:
    case type::NEGATIVE_INTEGER:
      return Kind::integer;
    case type::FLOAT32:
    case type::FLOAT64:
      return Kind::real;
    case type::BOOLEAN:
      return Kind::boolean;
    case type::STR:
      return Kind::text;
    case type::ARRAY:
      return Kind::array;
    case type::MAP:
      return Kind::map;
    default:
      return Kind::other;
  }
}

int64_t PackView::integer() const {
  const msgpack::object& value = as_object(object_);
  if (value.type == type::NEGATIVE_INTEGER) return value.via.i64;
  if (natural() > uint64_t{INT64_MAX}) refuse("is out of range");
  return static_cast<int64_t>(value.via.u64);
}

uint64_t PackView::natural() const {
  if (as_object(object_).type == type::NEGATIVE_INTEGER) {
    refuse("is negative");
  }
  return expect(object_, type::POSITIVE_INTEGER, "a whole number").via.u64;
}

double PackView::real() const {
  if (kind() == Kind::real) return as_object(object_).via.f64;
  if (kind() != Kind::integer) refuse("is not a number");
  return static_cast<double>(integer());
}

bool PackView::boolean() const {
  return expect(object_, type::BOOLEAN, "true or false").via.boolean;
}

std::string_view PackView::text() const {
  const msgpack::object& value = expect(object_, type::STR, "a text");
  return {value.via.str.ptr, value.via.str.size};
}

size_t PackView::array_size() const {
  return expect(object_, type::ARRAY, "a list").via.array.size;
}

PackView PackView::item(size_t index) const {
  return PackView(&as_object(object_).via.array.ptr[index]);
}

size_t PackView::map_size() const {
  return expect(object_, type::MAP, "a map").via.map.size;
}

std::string_view PackView::key(size_t index) const {
  return PackView(&as_object(object_).via.map.ptr[index].key).text();
}

PackView PackView::value(size_t index) const {
  return PackView(&as_object(object_).via.map.ptr[index].val);
}

std::optional<PackView> PackView::find(std::string_view name) const {
  for (size_t i = 0; i < map_size(); ++i) {
    const PackView key(&as_object(object_).via.map.ptr[i].key);
    if (key.kind() == Kind::text && key.text() == name) return value(i);
  }
  return std::nullopt;
}

struct Unpacked::Impl {
  msgpack::object_handle handle;
};

Unpacked::Unpacked(std::string_view bytes) : impl_(std::make_unique<Impl>()) {
  if (bytes.size() > kMaxFrameBytes) {
    refuse(fmt::format("has {} bytes, {} are allowed", bytes.size(),
                       kMaxFrameBytes));
  }
  // The parser keeps its own stack and checks each limit before it allocates.
  const msgpack::unpack_limit limit(kMaxItems, kMaxItems,
                                    /*str=*/kMaxFrameBytes,
                                    /*bin=*/0, /*ext=*/0, kMaxDepth);
  size_t end = 0;
  try {
    msgpack::unpack(impl_->handle, bytes.data(), bytes.size(), end, nullptr,
                    nullptr, limit);
  } catch (const std::exception& e) {
    refuse(fmt::format("has {} bytes that are not MessagePack ({})",
                       bytes.size(), e.what()));
  }
  if (end != bytes.size()) {
    refuse(fmt::format("has {} bytes after its end", bytes.size() - end));
  }
}

Unpacked::~Unpacked() = default;

PackView Unpacked::root() const { return PackView(&impl_->handle.get()); }

}  // namespace dtune::wire
