#include "dtune/wire/codec.h"

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune::wire {
namespace {

constexpr const char* kForm = "is not [version, type, fields]";

}  // namespace

void check(int64_t value, Between range) {
  if (value >= range.least && value <= range.most) return;
  throw BadField{"", fmt::format("is {} ({} to {} are possible)", value,
                                 range.least, range.most)};
}

void check(std::string_view bulk, Bytes size) {
  if (bulk.size() >= size.least && bulk.size() <= size.most &&
      bulk.size() % size.unit == 0) {
    return;
  }
  throw BadField{"",
                 fmt::format("has {} bytes ({} to {} in units of {} are "
                             "possible)",
                             bulk.size(), size.least, size.most, size.unit)};
}

void get_scalar(PackView value, Scalar& out) {
  switch (value.kind()) {
    case PackView::Kind::boolean:
      out = value.boolean();
      return;
    case PackView::Kind::integer:
      out = value.integer();
      return;
    case PackView::Kind::real:
      out = value.real();
      break;
    default:
      out = std::string(value.text());
      return;
  }
  if (!std::isfinite(value.real())) throw BadField{"", "is not finite"};
}

void refuse(std::string_view type, const BadField& bad) {
  std::string text = "message";
  // The type may be any text of any length.
  if (!type.empty()) text += fmt::format(" {}:", type.substr(0, 40));
  if (!bad.field.empty()) text += fmt::format(" '{}'", bad.field);
  throw Error(ErrorKind::comm, text + " " + bad.what);
}

Head::Head(std::string_view bytes, int version) try {
  const auto view = unpacked_.emplace(bytes).root();
  const bool list = view.kind() == PackView::Kind::array;
  if (!list || view.array_size() == 0) throw BadField{"", kForm};
  if (const uint64_t found = view.item(0).natural();
      found != static_cast<uint64_t>(version)) {
    throw BadField{"", fmt::format("is of protocol version {}, this is version "
                                   "{} (run the same dtune on all machines)",
                                   found, version)};
  }
  if (view.array_size() != 3) throw BadField{"", kForm};
  type_ = view.item(1).text();
  fields_ = view.item(2);
  fields_->map_size();  // refuses what is no map
} catch (const BadField& bad) {
  refuse("", bad);
}

void begin_head(PackWriter& out, int version, const char* type, size_t count) {
  out.begin_array(3);
  out.integer(version);
  out.text(type);
  out.begin_map(count);
}

std::string finish_head(const PackWriter& out, const char* type) {
  const std::string_view bytes = out.bytes();
  if (bytes.size() > kMaxFrameBytes) {
    refuse(type, {"", fmt::format("has {} bytes, {} are allowed", bytes.size(),
                                  kMaxFrameBytes)});
  }
  return std::string(bytes);
}

}  // namespace dtune::wire
