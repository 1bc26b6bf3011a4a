#include "dtune/data/npz_array.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

std::filesystem::path place_of(const ZipArchive& archive,
                               const std::string& name) {
  return archive.where().string() + ": " + name;
}

// A member whose next bytes are the array's values.
struct OpenedArray {
  NpyHeader header;
  ZipArchive::Member member;
};

OpenedArray open_array(ZipArchive& archive, const std::string& name) {
  const std::filesystem::path where = place_of(archive, name);
  ZipArchive::Member member = archive.open(name + ".npy");
  std::vector<uint8_t> header(kNpyPrefix);
  if (member.size() < header.size()) {
    fail_data(where, "is not an .npy array (too short)");
  }
  member.read(header);
  const size_t offset = npy_data_offset(header, where);
  if (offset < header.size() || offset > member.size()) {
    fail_data(where, "ends inside its .npy header");
  }
  header.resize(offset);
  member.read(std::span(header).subspan(kNpyPrefix));
  NpyHeader parsed = parse_npy_header(header, where);
  if (parsed.value_bytes() != member.size() - offset) {
    fail_data(where,
              fmt::format("claims {} values of {} bytes, but holds {} bytes "
                          "(damaged; fetch the file again)",
                          fmt::join(parsed.shape, "x"), parsed.item_bytes,
                          member.size() - offset));
  }
  return {std::move(parsed), std::move(member)};
}

}  // namespace

NpzArray read_npz_array(ZipArchive& archive, const std::string& name) {
  OpenedArray opened = open_array(archive, name);
  NpzArray array;
  array.where = place_of(archive, name);
  array.header = std::move(opened.header);
  check_fits_memory(array.where, array.header.value_bytes());
  array.bytes.resize(array.header.value_bytes());
  opened.member.read(array.bytes);
  opened.member.finish();
  return array;
}

NpzStream::NpzStream(std::shared_ptr<ZipArchive> archive, std::string name)
    : archive_(std::move(archive)),
      name_(std::move(name)),
      where_(place_of(*archive_, name_)) {
  rewind();
}

void NpzStream::rewind() {
  OpenedArray opened = open_array(*archive_, name_);
  header_ = std::move(opened.header);
  member_.emplace(std::move(opened.member));
  position_ = 0;
}

void NpzStream::read(uint64_t first, std::span<uint8_t> out) {
  const uint64_t all = header_.value_bytes();
  DTUNE_CHECK(first <= all && out.size() <= all - first);
  if (!member_ || first < position_) rewind();
  skip_to(first);
  member_->read(out);
  position_ += out.size();
  if (position_ < all) return;
  member_->finish();
  member_.reset();
  verified_ = true;
}

void NpzStream::skip_to(uint64_t place) {
  std::vector<uint8_t> piece;
  while (position_ < place) {
    piece.resize(std::min<uint64_t>(kPieceBytes, place - position_));
    member_->read(piece);
    position_ += piece.size();
  }
}

void NpzStream::for_each(const std::function<void(double)>& visit) {
  DTUNE_CHECK(!header_.fortran_order || header_.shape.size() < 2);
  const auto item = static_cast<uint64_t>(header_.item_bytes);
  const uint64_t most = std::max<uint64_t>(1, kPieceBytes / item);
  NpyHeader piece = header_;
  std::vector<uint8_t> bytes;
  for (uint64_t done = 0; done < header_.items; done += piece.items) {
    piece.items = std::min(most, header_.items - done);
    bytes.resize(piece.value_bytes());
    read(done * item, bytes);
    for_each_number(piece, bytes, where_, visit);
  }
}

void NpzStream::verify() {
  if (verified_) return;
  const uint64_t all = header_.value_bytes();
  if (!member_) rewind();
  skip_to(all);
  read(all, {});
}

}  // namespace dtune
