#include "dtune/data/cifar.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr int kCifarSide = 32;
constexpr int kChannels = 3;
constexpr size_t kPlane = size_t{kCifarSide} * kCifarSide;
constexpr size_t kPixels = kPlane * kChannels;

struct Layout {
  size_t label_bytes;
  int classes;
  const char* archive_folder;
  const char* names_file;
  std::vector<std::string> train_files;
  std::string test_file;
};

Layout layout_of(CifarKind kind) {
  if (kind == CifarKind::cifar10) {
    return {1,
            10,
            "cifar-10-batches-bin",
            "batches.meta.txt",
            {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
             "data_batch_4.bin", "data_batch_5.bin"},
            "test_batch.bin"};
  }
  return {
      2,         100, "cifar-100-binary", "fine_label_names.txt", {"train.bin"},
      "test.bin"};
}

fs::path files_folder(const fs::path& folder, const Layout& layout) {
  std::error_code error;
  const fs::path inner = folder / layout.archive_folder;
  return fs::is_directory(inner, error) ? inner : folder;
}

std::vector<std::string> default_names(CifarKind kind) {
  if (kind == CifarKind::cifar10) {
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  }
  std::vector<std::string> names;
  names.reserve(100);
  for (int i = 0; i < 100; ++i) names.push_back(std::to_string(i));
  return names;
}

// One name a line; what does not look so falls back to the known names.
std::vector<std::string> read_names(const fs::path& path, CifarKind kind,
                                    int classes) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return default_names(kind);
  std::istringstream lines(read_file(path, 1 << 16));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  return static_cast<int>(names.size()) == classes ? names
                                                   : default_names(kind);
}

void append_record(const uint8_t* planes, uint8_t* out) {
  for (size_t i = 0; i < kPlane; ++i) {
    for (size_t c = 0; c < kChannels; ++c) {
      out[i * kChannels + c] = planes[c * kPlane + i];
    }
  }
}

void append_file(const fs::path& path, CifarKind kind, ImageSet& out) {
  const std::string bytes = read_file(path);
  parse_cifar({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
              kind, path, out);
}

}  // namespace

void parse_cifar(std::span<const uint8_t> bytes, CifarKind kind,
                 const fs::path& where, ImageSet& out) {
  const Layout layout = layout_of(kind);
  const size_t record = layout.label_bytes + kPixels;
  if (bytes.empty() || bytes.size() % record != 0) {
    fail_data(where,
              fmt::format("is {} bytes long, not a whole number of records of "
                          "{} bytes (truncated, or not the binary version of "
                          "the data set)",
                          bytes.size(), record));
  }
  const size_t count = bytes.size() / record;
  const size_t before = out.labels.size();
  out.height = out.width = kCifarSide;
  out.channels = kChannels;
  out.images.resize((before + count) * kPixels);
  out.labels.resize(before + count);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* at = bytes.data() + i * record;
    out.labels[before + i] = at[layout.label_bytes - 1];
    append_record(at + layout.label_bytes,
                  out.images.data() + (before + i) * kPixels);
  }
  check_labels(where, std::span(out.labels).subspan(before), layout.classes);
}

std::vector<fs::path> cifar_files(const fs::path& folder, CifarKind kind) {
  const Layout layout = layout_of(kind);
  const fs::path inner = files_folder(folder, layout);
  std::vector<fs::path> files;
  for (const std::string& name : layout.train_files) {
    files.push_back(inner / name);
  }
  files.push_back(inner / layout.test_file);
  for (const fs::path& file : files) {
    std::error_code error;
    if (fs::exists(file, error)) continue;
    fail_data(inner,
              fmt::format("has no {} (unpack the binary version from "
                          "https://www.cs.toronto.edu/~kriz/cifar.html there)",
                          file.filename().string()));
  }
  return files;
}

SourceData read_cifar_folder(const fs::path& folder, CifarKind kind) {
  const Layout layout = layout_of(kind);
  const std::vector<fs::path> files = cifar_files(folder, kind);
  SourceData data;
  for (size_t i = 0; i + 1 < files.size(); ++i) {
    append_file(files[i], kind, data.train);
  }
  append_file(files.back(), kind, data.test);
  data.class_names = read_names(
      files_folder(folder, layout) / layout.names_file, kind, layout.classes);
  return data;
}

}  // namespace dtune
