#include "dtune/data/source_error.h"

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return UINT64_MAX;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

}  // namespace

void fail_data(const std::filesystem::path& where, const std::string& what) {
  throw Error(ErrorKind::data, fmt::format("{}: {}", where.string(), what));
}

std::optional<uint64_t> checked_product(std::span<const int64_t> sizes) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  uint64_t product = 1;
  bool zero = false;
  for (const int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      zero = true;
      continue;
    }
    const auto factor = static_cast<uint64_t>(size);
    if (product > kLimit / factor) return std::nullopt;
    product *= factor;
  }
  return zero ? 0 : product;
}

std::optional<uint64_t> checked_product(std::initializer_list<int64_t> sizes) {
  return checked_product(std::span<const int64_t>(sizes.begin(), sizes.size()));
}

void check_fits_memory(const std::filesystem::path& where, uint64_t bytes) {
  const uint64_t memory = machine_memory();
  if (bytes <= memory) return;
  fail_data(where, fmt::format("needs {} of memory, this machine has {} (use a "
                               "smaller image size or fewer images)",
                               format_bytes(bytes), format_bytes(memory)));
}

void check_labels(const std::filesystem::path& where,
                  std::span<const int32_t> labels, int classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < classes) continue;
    fail_data(where,
              fmt::format("label {} of sample {} is out of range (labels "
                          "of {} classes are 0 to {})",
                          labels[i], i, classes, classes - 1));
  }
}

std::string format_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace dtune
