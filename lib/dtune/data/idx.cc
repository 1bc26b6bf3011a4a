#include "dtune/data/idx.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/data/gzip.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr int kMnistSide = 28;  // known_data_shape says so
constexpr uint8_t kUint8 = 8;

uint32_t big_endian_32(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 |
         uint32_t{at[3]};
}

void check_magic(const std::array<uint8_t, 4>& magic, size_t n, int dimensions,
                 bool compressed, const fs::path& where) {
  if (n < magic.size()) {
    fail_data(where,
              fmt::format("is truncated: {} bytes are not an IDX file", n));
  }
  if (magic[0] != 0 || magic[1] != 0) {
    fail_data(where, fmt::format("{} (it starts with {:02x} {:02x} {:02x} "
                                 "{:02x}; fetch the file again)",
                                 compressed ? "holds no IDX data"
                                            : "is neither gzip nor IDX",
                                 magic[0], magic[1], magic[2], magic[3]));
  }
  if (magic[2] != kUint8) {
    fail_data(where, fmt::format("holds values of IDX type 0x{:02x}; only 0x08 "
                                 "(unsigned bytes) is read",
                                 magic[2]));
  }
  if (magic[3] != dimensions) {
    fail_data(where,
              fmt::format("has {} dimensions, expected {} (are image and label "
                          "files swapped?)",
                          magic[3], dimensions));
  }
}

std::vector<int64_t> read_shape(InflatingReader& reader, int dimensions,
                                const fs::path& where) {
  std::vector<int64_t> shape;
  for (int i = 0; i < dimensions; ++i) {
    std::array<uint8_t, 4> word{};
    if (reader.read(word) < word.size()) {
      fail_data(where, "is truncated within its header");
    }
    shape.push_back(big_endian_32(word.data()));
  }
  return shape;
}

// What is left of a gzip stream is only known once it is inflated.
void check_end(InflatingReader& reader, const fs::path& where) {
  uint8_t extra = 0;
  if (reader.read({&extra, 1}) != 0) {
    fail_data(where, "holds more bytes than its header says");
  }
}

fs::path find_file(const fs::path& folder, const std::string& split,
                   const std::string& what, int dimensions) {
  for (const char* dash : {"-", "."}) {
    for (const char* suffix : {".gz", ""}) {
      fs::path path = folder / fmt::format("{}-{}{}idx{}-ubyte{}", split, what,
                                           dash, dimensions, suffix);
      std::error_code error;
      if (fs::exists(path, error)) return path;
    }
  }
  fail_data(
      folder,
      fmt::format("has no {}-{}-idx{}-ubyte.gz (four files are expected: "
                  "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
                  "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz, "
                  "each with or without .gz)",
                  split, what, dimensions));
}

IdxArray read_idx(const fs::path& path, int dimensions) {
  const std::string bytes = read_file(path);
  return parse_idx(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
      dimensions, path);
}

ImageSet read_pair(const fs::path& images_path, const fs::path& labels_path,
                   int classes) {
  IdxArray images = read_idx(images_path, 3);
  const IdxArray labels = read_idx(labels_path, 1);
  if (images.shape[1] != kMnistSide || images.shape[2] != kMnistSide) {
    fail_data(images_path, fmt::format("holds images of {}x{} pixels, expected "
                                       "{}x{} (use kind: npz for other sizes)",
                                       images.shape[1], images.shape[2],
                                       kMnistSide, kMnistSide));
  }
  if (images.shape[0] != labels.shape[0]) {
    fail_data(
        labels_path,
        fmt::format("holds {} labels, but {} holds {} images", labels.shape[0],
                    images_path.filename().string(), images.shape[0]));
  }
  if (images.shape[0] == 0) fail_data(images_path, "holds no images");
  ImageSet set{.height = kMnistSide,
               .width = kMnistSide,
               .channels = 1,
               .images = std::move(images.values),
               .labels = {labels.values.begin(), labels.values.end()}};
  check_labels(labels_path, set.labels, classes);
  return set;
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> bytes, int dimensions,
                   const fs::path& where) {
  InflatingReader reader(bytes, where);
  std::array<uint8_t, 4> magic{};
  const size_t n = reader.read(magic);
  check_magic(magic, n, dimensions, reader.compressed(), where);
  IdxArray array{.shape = read_shape(reader, dimensions, where), .values = {}};
  const auto size = checked_product(array.shape);
  if (!size || *size > reader.most_bytes()) {
    fail_data(where, fmt::format("claims {} values, more than its {} bytes can "
                                 "hold (truncated or damaged; fetch it again)",
                                 fmt::join(array.shape, "x"), bytes.size()));
  }
  check_fits_memory(where, *size);
  array.values.resize(*size);
  const size_t got = reader.read(array.values);
  if (got < array.values.size()) {
    fail_data(where, fmt::format("is truncated: {} of {} values are there "
                                 "(fetch the file again)",
                                 got, array.values.size()));
  }
  check_end(reader, where);
  return array;
}

std::vector<fs::path> idx_files(const fs::path& folder) {
  return {find_file(folder, "train", "images", 3),
          find_file(folder, "train", "labels", 1),
          find_file(folder, "t10k", "images", 3),
          find_file(folder, "t10k", "labels", 1)};
}

SourceData read_idx_folder(const fs::path& folder,
                           std::vector<std::string> class_names) {
  const std::vector<fs::path> files = idx_files(folder);
  const int classes = static_cast<int>(class_names.size());
  SourceData data;
  data.train = read_pair(files[0], files[1], classes);
  data.test = read_pair(files[2], files[3], classes);
  data.class_names = std::move(class_names);
  return data;
}

}  // namespace dtune
