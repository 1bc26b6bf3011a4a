#include "dtune/data/npz_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/data/source_error.h"

namespace dtune {

NpzArray read_npz_array(ZipArchive& archive, const std::string& name) {
  NpzArray array;
  array.where = archive.where().string() + ": " + name;
  ZipArchive::Member member = archive.open(name + ".npy");
  std::vector<uint8_t> header(kNpyPrefix);
  if (member.size() < header.size()) {
    fail_data(array.where, "is not an .npy array (too short)");
  }
  member.read(header);
  const size_t offset = npy_data_offset(header, array.where);
  if (offset < header.size() || offset > member.size()) {
    fail_data(array.where, "ends inside its .npy header");
  }
  header.resize(offset);
  member.read(std::span(header).subspan(kNpyPrefix));
  array.header = parse_npy_header(header, array.where);
  const uint64_t claimed = array.header.value_bytes();
  if (claimed != member.size() - offset) {
    fail_data(array.where,
              fmt::format("claims {} values of {} bytes, but holds {} bytes "
                          "(damaged; fetch the file again)",
                          fmt::join(array.header.shape, "x"),
                          array.header.item_bytes, member.size() - offset));
  }
  check_fits_memory(array.where, claimed);
  array.bytes.resize(claimed);
  member.read(array.bytes);
  member.finish();
  return array;
}

}  // namespace dtune
