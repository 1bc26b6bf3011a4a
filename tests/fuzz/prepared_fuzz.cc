// Prepared files: what passes the checks can be read to its last byte. The
// header's check sum is put right first, else nearly nothing would get past it.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/data/prepared_format.h"

namespace {

using Bytes = std::span<const std::byte>;

uint64_t sum_of(Bytes bytes) {
  uint64_t sum = 0;
  for (const std::byte b : bytes) sum += std::to_integer<uint64_t>(b);
  return sum;
}

void read_all(Bytes file) {
  dtune::check_prepared(file, "fuzz");
  dtune::PreparedHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const auto names = dtune::prepared_names(file, "fuzz");
  DTUNE_CHECK(names.size() == size_t(header.classes));
  for (const std::string& note : dtune::prepared_notes(file, "fuzz")) {
    DTUNE_CHECK(note.size() <= file.size());
  }
  const uint64_t pixels = uint64_t(header.channels) * uint64_t(header.height) *
                          uint64_t(header.width);
  uint64_t sum = 0;
  for (const dtune::PreparedSplit& split : header.splits) {
    const auto count = static_cast<uint64_t>(split.count);
    sum += sum_of(file.subspan(split.images_offset, count * pixels));
    sum += sum_of(file.subspan(split.labels_offset, count * sizeof(int32_t)));
  }
  sum += sum_of(file.subspan(header.statistics_offset,
                             2 * size_t(header.channels) * sizeof(float)));
  DTUNE_CHECK(sum <= 255 * 7 * file.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file(size);
  if (size != 0) std::memcpy(file.data(), data, size);
  dtune::PreparedHeader header;
  if (size >= sizeof header) {
    std::memcpy(&header, file.data(), sizeof header);
    header.file_bytes = size;
    header.header_crc = dtune::header_crc(header);
    std::memcpy(file.data(), &header, sizeof header);
  }
  try {
    read_all(file);
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) throw;
  }
  return 0;
}
