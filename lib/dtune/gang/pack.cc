#include "dtune/gang/pack.h"

#include <bit>

#include <fmt/format.h>

#define MSGPACK_NO_BOOST  // NOLINT: the library's own switch
#include <msgpack.hpp>

#include "dtune/base/error.h"

namespace dtune::gang {
namespace {

const msgpack::object& as_object(const void* object) {
  return *static_cast<const msgpack::object*>(object);
}

const msgpack::object& expect(const void* object, msgpack::type::object_type t,
                              const char* name) {
  const msgpack::object& value = as_object(object);
  if (value.type != t) fail_message(fmt::format("a value is no {}", name));
  return value;
}

}  // namespace

void fail_message(const std::string& text) {
  throw Error(ErrorKind::comm, "message: " + text);
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
void PackWriter::boolean(bool value) { impl_->packer.pack(value); }

// The library would write whole reals as integers: smaller, but 2^63 and more
// would not read back.
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

int64_t PackView::integer() const {
  const msgpack::object& value = as_object(object_);
  if (value.type == msgpack::type::NEGATIVE_INTEGER) return value.via.i64;
  expect(object_, msgpack::type::POSITIVE_INTEGER, "whole number");
  if (value.via.u64 > uint64_t{INT64_MAX}) {
    fail_message("a number is out of range");
  }
  return static_cast<int64_t>(value.via.u64);
}

double PackView::real() const {
  const msgpack::object& value = as_object(object_);
  if (value.type == msgpack::type::FLOAT32 ||
      value.type == msgpack::type::FLOAT64) {
    return value.via.f64;
  }
  return static_cast<double>(integer());
}

bool PackView::boolean() const {
  return expect(object_, msgpack::type::BOOLEAN, "yes or no").via.boolean;
}

std::string_view PackView::text() const {
  const msgpack::object& value = expect(object_, msgpack::type::STR, "text");
  return {value.via.str.ptr, value.via.str.size};
}

size_t PackView::array_size() const {
  return expect(object_, msgpack::type::ARRAY, "list").via.array.size;
}

PackView PackView::item(size_t index) const {
  return PackView(&as_object(object_).via.array.ptr[index]);
}

size_t PackView::map_size() const {
  return expect(object_, msgpack::type::MAP, "map").via.map.size;
}

std::string_view PackView::key(size_t index) const {
  return PackView(&as_object(object_).via.map.ptr[index].key).text();
}

PackView PackView::value(size_t index) const {
  return PackView(&as_object(object_).via.map.ptr[index].val);
}

std::optional<PackView> PackView::find(std::string_view name) const {
  for (size_t i = 0; i < map_size(); ++i) {
    if (key(i) == name) return value(i);
  }
  return std::nullopt;
}

struct Unpacked::Impl {
  msgpack::object_handle handle;
};

Unpacked::Unpacked(std::string_view bytes, const PackLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  if (bytes.size() > limits.bytes) {
    fail_message(
        fmt::format("{} bytes, {} are allowed", bytes.size(), limits.bytes));
  }
  // The parser keeps its own stack and checks each limit before it allocates.
  const msgpack::unpack_limit limit(limits.array, limits.map,
                                    /*str=*/limits.bytes, /*bin=*/0,
                                    /*ext=*/0, limits.depth);
  size_t end = 0;
  try {
    msgpack::unpack(impl_->handle, bytes.data(), bytes.size(), end, nullptr,
                    nullptr, limit);
  } catch (const std::exception& e) {
    fail_message(fmt::format("{} bytes that are no message ({})", bytes.size(),
                             e.what()));
  }
  if (end != bytes.size()) {
    fail_message("followed by bytes that belong to nothing");
  }
}

Unpacked::~Unpacked() = default;

PackView Unpacked::root() const { return PackView(&impl_->handle.get()); }

}  // namespace dtune::gang
