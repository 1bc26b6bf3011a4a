#include "dtune/data/prepared.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>

#include "data/fixtures.h"
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/data/prepared_format.h"
#include "dtune/data/source.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

namespace fs = std::filesystem;

DataSpec mnist_at(const fs::path& path) {
  DataSpec spec;
  spec.kind = DataKind::mnist;
  spec.path = path.string();
  return spec;
}

DataSpec synthetic() {
  DataSpec spec;
  spec.kind = DataKind::synthetic;
  spec.samples = 200;
  spec.height = 6;
  spec.width = 5;
  spec.channels = 3;
  return spec;
}

size_t count_files(const fs::path& folder, const std::string& ending) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    count += entry.path().string().ends_with(ending) ? 1 : 0;
  }
  return count;
}

// The prepared file as mutable bytes, and back with a right header check sum.
struct Altered {
  explicit Altered(const fs::path& from) : bytes(read_bytes(from)) {
    std::memcpy(&header, bytes.data(), sizeof header);
  }
  void write(const fs::path& to) {
    header.header_crc = header_crc(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    write_bytes(to, bytes);
  }
  Bytes bytes;
  PreparedHeader header;
};

// "VmHWM": the largest memory that this process had, "VmRSS": what it has.
uint64_t memory_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kilobytes = 0;
    if (word == key + ":" && status >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

// Whether a process that prepares it grows by less than this.
bool prepares_within(const DataSpec& spec, const fs::path& cache,
                     uint64_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  bytes <<= 4;  // it keeps what was freed
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    const uint64_t before = memory_bytes("VmRSS");
    try {
      prepare_data(spec, cache);
    } catch (const std::exception&) {
      ::_exit(2);
    }
    ::_exit(memory_bytes("VmHWM") < before + bytes ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) <= 1);
  return WEXITSTATUS(status) == 0;
}

std::string open_error(const fs::path& path) {
  return error_of([&] { PreparedData data(path); }, path.parent_path());
}

}  // namespace

TEST_CASE("a prepared file holds the splits, names and statistics") {
  TemporaryDirectory folder;
  const PreparedData data(prepare_data(synthetic(), folder.path() / "cache"));
  CHECK(data.image_shape() ==
        Shape{.channels = 3, .height = 6, .width = 5, .flat = false});
  CHECK(data.classes() == 10);
  CHECK(data.class_names()[9] == "9");
  CHECK(data.count(Split::train) == 180);
  CHECK(data.count(Split::validation) == 20);
  CHECK(data.count(Split::test) == 50);
  CHECK(data.images(Split::train).size() == 180 * 90);
  CHECK(data.labels(Split::test).size() == 50);
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const auto images = reinterpret_cast<uintptr_t>(data.images(split).data());
    const auto labels = reinterpret_cast<uintptr_t>(data.labels(split).data());
    CHECK(images % 64 == 0);
    CHECK(labels % 64 == 0);
  }
}

TEST_CASE("mean and deviation are those of the training split alone") {
  TemporaryDirectory folder;
  const PreparedData data(prepare_data(synthetic(), folder.path()));
  const auto images = data.images(Split::train);
  for (size_t c = 0; c < 3; ++c) {
    double sum = 0;
    double squares = 0;
    for (size_t i = c; i < images.size(); i += 3) {
      sum += images[i] / 255.0;
      squares += images[i] / 255.0 * (images[i] / 255.0);
    }
    const double n = double(images.size()) / 3;
    CHECK(data.mean()[c] == doctest::Approx(sum / n).epsilon(1e-6));
    const double variance = squares / n - sum / n * (sum / n);
    CHECK(data.deviation()[c] ==
          doctest::Approx(std::sqrt(variance)).epsilon(1e-5));
  }
}

TEST_CASE("the deviation of a flat channel is kept off zero") {
  TemporaryDirectory folder;
  write_npz(folder.path() / "flat.npz",
            {{"train_images", npy_bytes("|u1", {4, 1, 1}, {7, 7, 7, 7})},
             {"train_labels", npy_bytes("|u1", {4}, {0, 1, 0, 1})}});
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = (folder.path() / "flat.npz").string();
  spec.test = 0;
  spec.validation = 2;
  const PreparedData data(prepare_data(spec, folder.path()));
  CHECK(data.deviation()[0] == doctest::Approx(1e-3));
  CHECK(data.mean()[0] == doctest::Approx(7.0 / 255));
  CHECK(data.count(Split::test) == 0);
}

TEST_CASE("the test split influences nothing else") {
  TemporaryDirectory folder;
  const fs::path first = folder.path() / "first";
  const fs::path second = folder.path() / "second";
  write_idx_folder(first, 60, 10);
  write_idx_folder(second, 60, 10);
  write_bytes(second / "t10k-images-idx3-ubyte.gz",
              gzip(idx_bytes({1, 28, 28}, Bytes(784, 255))));
  write_bytes(second / "t10k-labels-idx1-ubyte.gz", idx_bytes({1}, {9}));
  const PreparedData a(prepare_data(mnist_at(first), folder.path()));
  const PreparedData b(prepare_data(mnist_at(second), folder.path()));
  CHECK(b.count(Split::test) == 1);
  CHECK(std::ranges::equal(a.images(Split::train), b.images(Split::train)));
  CHECK(std::ranges::equal(a.images(Split::validation),
                           b.images(Split::validation)));
  CHECK(a.mean()[0] == b.mean()[0]);
  CHECK(a.deviation()[0] == b.deviation()[0]);
}

TEST_CASE("an unchanged source is prepared once") {
  TemporaryDirectory folder;
  const fs::path cache = folder.path() / "cache";
  write_idx_folder(folder.path() / "set", 20, 10);
  const DataSpec spec = mnist_at(folder.path() / "set");
  const fs::path path = prepare_data(spec, cache);
  const auto made = fs::last_write_time(path);
  DataSpec same = spec;
  same.normalize = false;  // the trainer's affair, not the file's
  same.augment.flip = true;
  CHECK(prepare_data(same, cache) == path);
  CHECK(fs::last_write_time(path) == made);
}

TEST_CASE("another spec or a changed source makes another file") {
  TemporaryDirectory folder;
  const fs::path cache = folder.path() / "cache";
  const fs::path set = folder.path() / "set";
  write_idx_folder(set, 40, 10);
  DataSpec spec = mnist_at(set);
  const fs::path path = prepare_data(spec, cache);
  spec.split_seed = 7;
  CHECK(prepare_data(spec, cache) != path);
  spec.split_seed = 0;
  write_idx_folder(set, 50, 10);
  const fs::path newer = prepare_data(spec, cache);
  CHECK(newer != path);
  CHECK(PreparedData(newer).count(Split::train) == 45);
  fs::last_write_time(set / "t10k-labels-idx1-ubyte.gz",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(prepare_data(spec, cache) != newer);
}

TEST_CASE("a damaged prepared file is found out and made anew") {
  TemporaryDirectory folder;
  const fs::path path = prepare_data(synthetic(), folder.path());
  const Bytes good = read_bytes(path);
  for (const size_t at : {size_t{3}, size_t{40}, good.size() / 2}) {
    Bytes bad = good;
    bad[at] ^= 1;
    write_bytes(path, bad);
    CHECK(prepare_data(synthetic(), folder.path()) == path);
    CHECK(read_bytes(path) == good);
  }
  write_bytes(path, Bytes(good.begin(), good.end() - 1));
  prepare_data(synthetic(), folder.path());
  CHECK(read_bytes(path) == good);
}

TEST_CASE("what a killed process left in the cache does no harm") {
  TemporaryDirectory folder;
  const fs::path path = prepare_data(synthetic(), folder.path());
  fs::rename(path, path.string() + ".tmp");
  CHECK(prepare_data(synthetic(), folder.path()) == path);
  CHECK(count_files(folder.path(), ".tmp") == 0);
}

TEST_CASE("an incomplete prepared file is refused with the reason") {
  TemporaryDirectory folder;
  const fs::path good = prepare_data(synthetic(), folder.path());
  const fs::path path = folder.path() / "x";
  write_bytes(path, {});
  CHECK(open_error(path) ==
        "data: x: is damaged: it is too short (delete it; it is made anew)");
  write_bytes(path, Bytes(500, 'x'));
  CHECK(open_error(path) ==
        "data: x: is not a prepared data set of dtune (check the path)");
  Altered newer(good);
  newer.header.version = 9;
  newer.write(path);
  CHECK(open_error(path) ==
        "data: x: was prepared by another version of dtune or another machine "
        "(version 9, this one reads 2; delete it: it is made anew)");
  Altered cut(good);
  cut.bytes.resize(cut.bytes.size() - 64);
  cut.write(path);
  CHECK(open_error(path) ==
        "data: x: is damaged: its size is wrong (delete it; it is made anew)");
  CHECK(open_error(folder.path() / "none") ==
        "data: none: cannot be opened: No such file or directory (check the "
        "path)");
}

TEST_CASE("a prepared file that points outside of itself is refused") {
  TemporaryDirectory folder;
  const fs::path good = prepare_data(synthetic(), folder.path());
  const fs::path path = folder.path() / "x";
  const auto error = [&](auto change) {
    Altered altered(good);
    change(altered.header);
    altered.write(path);
    return open_error(path);
  };
  const std::string outside =
      "data: x: is damaged: a section lies outside of it (delete it; it is "
      "made anew)";
  using H = PreparedHeader;
  CHECK(error([](H& h) { h.splits[0].count = 1 << 30; }) == outside);
  CHECK(error([](H& h) { h.splits[1].count = -1; }) == outside);
  CHECK(error([](H& h) { h.splits[2].labels_offset += 64000; }) == outside);
  CHECK(error([](H& h) { h.splits[0].images_offset += 1; }) == outside);
  CHECK(error([](H& h) { h.splits[0].images_offset = UINT64_MAX - 63; }) ==
        outside);
  CHECK(error([](H& h) { h.names_bytes = UINT64_MAX; }) == outside);
  CHECK(error([](H& h) { h.statistics_offset = h.file_bytes; }) == outside);
  CHECK(error([](H& h) { h.height = 0; }).find("its shape is out of range") !=
        std::string::npos);
  CHECK(error([](H& h) { h.classes = 3; }).find("a label is out of range") !=
        std::string::npos);
  CHECK(error([](H& h) {
          h.classes = 11;
        }).find("it does not name its classes") != std::string::npos);
}

TEST_CASE("processes that prepare the same set at once share one file") {
  TemporaryDirectory folder;
  const fs::path set = folder.path() / "set";
  write_idx_folder(set, 500, 10);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      bool good = false;
      try {
        const PreparedData data(
            prepare_data(mnist_at(set), folder.path() / "cache"));
        good = data.count(Split::train) == 450;
      } catch (const std::exception&) {
        good = false;
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  CHECK(count_files(folder.path() / "cache", ".data") == 1);
  CHECK(count_files(folder.path() / "cache", ".tmp") == 0);
}

// 64 MiB of images in all; the pixels of each are its label.
constexpr int64_t kLargeImages = 64;
constexpr int64_t kLargeSide = 1024;

// Two pieces, and what each thread decodes.
uint64_t allowance() { return (24 + 3 * count_cores()) << 20; }

void check_large(const fs::path& prepared) {
  const PreparedData data(prepared);
  CHECK(data.count(Split::train) + data.count(Split::validation) +
            data.count(Split::test) ==
        kLargeImages);
  for (const Split split : {Split::train, Split::validation, Split::test}) {
    const auto images = data.images(split);
    const auto labels = data.labels(split);
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto image =
          images.subspan(i * kLargeSide * kLargeSide, kLargeSide * kLargeSide);
      CHECK(image.front() == labels[i]);
      CHECK(image.back() == labels[i]);
    }
  }
}

TEST_CASE("an archive larger than the memory is prepared piece by piece") {
  const TemporaryDirectory folder;
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = (folder.path() / "large.npz").string();
  {
    Bytes images;
    Bytes labels;
    for (int64_t i = 0; i < kLargeImages; ++i) {
      labels.push_back(static_cast<uint8_t>(i % 2));
      images.insert(images.end(), kLargeSide * kLargeSide, labels.back());
    }
    const std::vector<int64_t> shape = {kLargeImages, kLargeSide, kLargeSide};
    write_npz(spec.path,
              {{"train_images", npy_bytes("|u1", shape, images)},
               {"train_labels", npy_bytes("|u1", {kLargeImages}, labels)}});
  }
  const fs::path cache = folder.path() / "cache";
  CHECK(prepares_within(spec, cache, allowance()));
  check_large(prepare_data(spec, cache));
}

TEST_CASE("a folder larger than the memory is prepared piece by piece") {
  const TemporaryDirectory folder;
  DataSpec spec;
  spec.kind = DataKind::folder;
  spec.gray = true;
  spec.path = (folder.path() / "photos").string();
  for (const uint8_t label : Bytes{0, 1}) {
    const fs::path place = fs::path(spec.path) / (label == 0 ? "a" : "b");
    fs::create_directories(place);
    const Bytes png = png_bytes(flat_image(kLargeSide, kLargeSide, {label}));
    for (int64_t i = 0; i < kLargeImages / 2; ++i) {
      write_bytes(place / (std::to_string(i) + ".png"), png);
    }
  }
  const fs::path cache = folder.path() / "cache";
  CHECK(prepares_within(spec, cache, allowance()));
  check_large(prepare_data(spec, cache));
}

TEST_CASE("a source that fails leaves nothing in the cache") {
  TemporaryDirectory folder;
  const fs::path set = folder.path() / "set";
  const fs::path cache = folder.path() / "cache";
  write_idx_folder(set, 20, 10);
  write_bytes(set / "train-images-idx3-ubyte.gz", bytes_of("nonsense"));
  CHECK(error_of([&] { prepare_data(mnist_at(set), cache); }, set) ==
        "data: train-images-idx3-ubyte.gz: is neither gzip nor IDX (it starts "
        "with 6e 6f 6e 73; fetch the file again)");
  CHECK(count_files(cache, ".data") == 0);
  CHECK(count_files(cache, ".tmp") == 0);
}

TEST_CASE("a cache that cannot be made says what to set") {
  TemporaryDirectory folder;
  write_bytes(folder.path() / "file", {1});
  const auto prepare = [&] {
    prepare_data(synthetic(), folder.path() / "file" / "cache");
  };
  CHECK(error_of(prepare, folder.path()) ==
        "data: file/cache: cannot be created: Not a directory (set "
        "XDG_CACHE_HOME to a folder that can be written)");
}

TEST_CASE("a prepared file keeps what was said of its source") {
  TemporaryDirectory folder;
  write_npz(folder.path() / "set.npz",
            {{"train_images",
              npy_bytes("<f4", {4, 1, 1}, float_bytes({0, 0.5F, 1, 0.25F}))},
             {"train_labels", npy_bytes("|u1", {4}, {0, 1, 0, 1})}});
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = (folder.path() / "set.npz").string();
  spec.test = 0;
  spec.validation = 0;
  for (int time = 0; time < 2; ++time) {  // then from the cache
    const PreparedData data(prepare_data(spec, folder.path()));
    REQUIRE(data.notes().size() == 1);
    CHECK(data.notes()[0].starts_with("the images are float32 in [0, 1]"));
  }
}

TEST_CASE("one class cannot be learnt") {
  TemporaryDirectory folder;
  write_npz(folder.path() / "set.npz",
            {{"train_images", npy_bytes("|u1", {3, 1, 1}, {1, 2, 3})},
             {"train_labels", npy_bytes("|u1", {3}, {0, 0, 0})}});
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = (folder.path() / "set.npz").string();
  CHECK(
      error_of([&] { prepare_data(spec, folder.path()); }, folder.path()) ==
      "data: set.npz: all 3 training labels are 0: one class cannot be learnt "
      "(give at least two classes, labels 0 and 1)");
}
