// Files of recorded curves. The input is a row of .npy arrays, each beginning
// with its magic; they become the members of an archive, in this order, so that
// mutations get past the check sums of zip.
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include <zip.h>

#include "dtune/base/error.h"
#include "dtune/curves/curves_file.h"
#include "dtune/data/zip_archive.h"

namespace {

constexpr std::array kNames = {
    "learning_rate.npy", "l2.npy",    "dropout.npy",   "val_accuracy_a.npy",
    "tasks.npy",         "epoch.npy", "setting_a.npy", "val_accuracy_7.npy"};

std::vector<std::string_view> arrays_of(std::string_view input) {
  std::vector<std::string_view> arrays;
  while (!input.empty() && arrays.size() < kNames.size()) {
    const size_t end = input.find("\x93NUMPY", 1);
    arrays.push_back(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end);
  }
  return arrays;
}

std::vector<uint8_t> archive_of(const std::vector<std::string_view>& arrays) {
  zip_source_t* source = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_source_keep(source);
  zip_t* zip = zip_open_from_source(source, ZIP_TRUNCATE, nullptr);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const zip_int64_t index = zip_file_add(
        zip, kNames[i],
        zip_source_buffer(zip, arrays[i].data(), arrays[i].size(), 0), 0);
    zip_set_file_compression(zip, zip_uint64_t(index), ZIP_CM_STORE, 0);
  }
  DTUNE_CHECK(zip_close(zip) == 0);
  zip_stat_t info;
  zip_stat_init(&info);
  zip_source_stat(source, &info);
  std::vector<uint8_t> bytes(info.size);
  zip_source_open(source);
  zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  zip_source_free(source);
  return bytes;
}

void check(const dtune::RecordedCurves& curves) {
  DTUNE_CHECK(curves.values.size() ==
              curves.log10_lr.size() * curves.log10_l2.size() *
                  curves.dropout.size() * curves.epochs.size());
  DTUNE_CHECK(std::isfinite(curves.value({-2, -3, 0.1}, 2)));
  DTUNE_CHECK(curves.median_final() <= curves.best());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::vector<uint8_t> bytes =
      archive_of(arrays_of({reinterpret_cast<const char*>(data), size}));
  try {
    dtune::ZipArchive archive(bytes, "fuzz");
    for (const auto& curves : dtune::read_curves(archive)) check(curves);
  } catch (const dtune::Error& error) {
    if (error.kind() != dtune::ErrorKind::data) throw;
  }
  return 0;
}
