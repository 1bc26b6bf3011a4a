#include "dtune/data/npz.h"

#include <cmath>
#include <memory>

#include "data/fixtures.h"
#include "data/load_images.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

using Members = std::map<std::string, Bytes>;

struct NpzFile {
  TemporaryDirectory folder;
  std::filesystem::path path = folder.path() / "set.npz";

  SourceData read(const Members& members, Packing packing = Packing::deflated) {
    write_npz(path, members, packing);
    return read();
  }
  SourceData read() const {
    SourceData data = open_npz(std::make_shared<ZipArchive>(path));
    load_images(data);
    return data;
  }
  std::string error(const Members& members) {
    return error_of([&] { read(members); }, folder.path());
  }
  std::string error() {
    return error_of([&] { read(); }, folder.path());
  }
};

Members join(Members a, const Members& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// A train split of two 1x2 images [a b] [c d] with labels 0 and 1.
Members tiny(const Bytes& images) {
  return {{"train_images", images},
          {"train_labels", npy_bytes("|u1", {2}, {0, 1})}};
}

// The same of floats, one for each pixel.
Members tiny(const std::vector<float>& values) {
  const auto pixels = static_cast<int64_t>(values.size() / 2);
  return tiny(npy_bytes("<f4", {2, 1, pixels}, float_bytes(values)));
}

// The place of the member's entry in the central directory.
size_t central_entry(const Bytes& zip, const std::string& name) {
  const std::string text(zip.begin(), zip.end());
  return text.rfind(name) - 46;
}

}  // namespace

TEST_CASE("NPZ splits are read, stored or deflated, grey or colour") {
  NpzFile file;
  for (const Packing packing : {Packing::stored, Packing::deflated}) {
    for (const int channels : {1, 3}) {
      const SourceData data =
          file.read(join(join(npz_split("train", 6, 3, channels),
                              npz_split("val", 3, 3, channels)),
                         npz_split("test", 4, 3, channels)),
                    packing);
      CHECK(data.train.channels == channels);
      CHECK(data.train.height == 4);
      CHECK(data.train.width == 5);
      CHECK(data.train.count() == 6);
      CHECK(data.validation.count() == 3);
      CHECK(data.test.count() == 4);
      CHECK(data.train.labels == std::vector<int32_t>{0, 1, 2, 0, 1, 2});
      CHECK(data.train.images[size_t(20 * channels + 3)] == 4);
      CHECK(data.class_names == std::vector<std::string>{"0", "1", "2"});
    }
  }
}

TEST_CASE("Keras's member names are read too") {
  NpzFile file;
  const SourceData data =
      file.read({{"x_train", npy_bytes("|u1", {2, 1, 2}, {1, 2, 3, 4})},
                 {"y_train", npy_bytes("|u1", {2}, {0, 1})},
                 {"x_test", npy_bytes("|u1", {1, 1, 2}, {5, 6})},
                 {"y_test", npy_bytes("|u1", {1}, {1})}});
  CHECK(data.train.images == Bytes{1, 2, 3, 4});
  CHECK(data.test.labels == std::vector<int32_t>{1});
}

TEST_CASE("all .npy versions, integer types and orders mean the same") {
  NpzFile file;
  const Bytes expected = {1, 2, 3, 4};
  for (const int version : {1, 2, 3}) {
    CHECK(file.read(tiny(npy_bytes("|u1", {2, 1, 2}, expected, false, version)))
              .train.images == expected);
  }
  CHECK(file.read(tiny(npy_bytes(
                      "<i4", {2, 1, 2},
                      {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0})))
            .train.images == expected);
  CHECK(file.read(tiny(npy_bytes(">u2", {2, 1, 2}, {0, 1, 0, 2, 0, 3, 0, 4})))
            .train.images == expected);
  // Fortran order: the first index turns fastest.
  CHECK(file.read(tiny(npy_bytes("|u1", {2, 1, 2}, {1, 3, 2, 4}, true)))
            .train.images == expected);
}

TEST_CASE("floats in [0, 1] become the levels that they came from") {
  NpzFile file;
  std::vector<float> shares;
  Bytes levels;
  for (int level = 0; level < 256; ++level) {
    levels.push_back(static_cast<uint8_t>(level));
    shares.push_back(static_cast<float>(level) / 255.0F);
  }
  const SourceData data = file.read(tiny(shares));
  CHECK(data.train.images == levels);
  REQUIRE(data.notes.size() == 1);
  CHECK(data.notes[0] ==
        "the images are float32 in [0, 1]: they are stored as 0 to 255 (times "
        "255, rounded)");
  // Black and white.
  CHECK(file.read(tiny(std::vector<float>{0, 1, 1, 0})).train.images ==
        Bytes{0, 255, 255, 0});
}

TEST_CASE("floats of whole levels stay as they are") {
  NpzFile file;
  const SourceData data = file.read(tiny(std::vector<float>{0, 7, 255, 3}));
  CHECK(data.train.images == Bytes{0, 7, 255, 3});
  CHECK(data.notes.empty());
}

TEST_CASE("standardised images become the levels that they came from") {
  NpzFile file;
  std::vector<float> values;
  Bytes levels;
  for (int level = 0; level < 256; ++level) {
    levels.push_back(static_cast<uint8_t>(level));
    values.push_back((static_cast<float>(level) / 255.0F - 0.2860F) / 0.3530F);
  }
  const SourceData data = file.read(tiny(values));
  CHECK(data.train.images == levels);
  REQUIRE(data.notes.size() == 1);
  CHECK(data.notes[0] ==
        "the images are float32 from -0.8102 to 2.023: each channel's range is "
        "stored as 0 to 255 (256 levels; what is beyond the training images' "
        "range gets the nearest level)");
}

TEST_CASE("each channel of standardised images has a range of its own") {
  NpzFile file;
  const std::vector<float> values = {-1, 100, 0, 150, 1, 200, 0, 100};
  const SourceData data = file.read(
      {{"train_images", npy_bytes("<f4", {2, 1, 2, 2}, float_bytes(values))},
       {"train_labels", npy_bytes("|u1", {2}, {0, 1})}});
  CHECK(data.train.images == Bytes{0, 0, 128, 128, 255, 255, 128, 0});
}

TEST_CASE("one outlier does not take the levels of all other pixels") {
  NpzFile file;
  std::vector<float> values;
  for (int i = 0; i < 4000; ++i) {
    values.push_back(static_cast<float>(i % 200) / 100.0F - 1);
  }
  values[17] = 1e6F;
  const Bytes levels = file.read(tiny(values)).train.images;
  CHECK(levels[17] == 255);
  CHECK(levels[0] == 0);
  CHECK(levels[199] >= 16);
}

TEST_CASE("quiet columns do not take the levels of the others") {
  NpzFile file;
  std::vector<float> values;
  for (int i = 0; i < 1 << 16; ++i) {  // pairs: a stride of two is enough
    const float value = static_cast<float>(i % 201) / 100.0F - 1;
    values.push_back(value / 100);
    values.push_back(value);
  }
  const auto count = static_cast<int64_t>(values.size() / 4);
  Bytes labels(static_cast<size_t>(count));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 2;
  const Bytes levels =
      file.read({{"train_images",
                  npy_bytes("<f4", {count, 2, 2}, float_bytes(values))},
                 {"train_labels", npy_bytes("|u1", {count}, labels)}})
          .train.images;
  CHECK(levels[2 * 150 + 1] == 191);  // 0.5 of -1 to 1
}

TEST_CASE("splits on another scale than the training images are refused") {
  NpzFile file;
  const auto error = [&](const std::vector<float>& train, const Bytes& test) {
    Members members = tiny(train);
    members["test_images"] = test;
    members["test_labels"] = npy_bytes("|u1", {2}, {0, 1});
    return file.error(members);
  };
  const Bytes levels = npy_bytes("|u1", {2, 1, 2}, {0, 100, 200, 255});
  const Bytes shares =
      npy_bytes("<f4", {2, 1, 2}, float_bytes({0, 0.5F, 0.25F, 1}));
  CHECK(error({0, 0.5F, 1, 0.25F}, levels) ==
        "data: set.npz: test_images: holds the value 255, but the training "
        "images are in [0, 1] (scale all splits alike)");
  CHECK(error({0, 7, 255, 3}, shares) ==
        "data: set.npz: test_images: holds the value 0.5, but the training "
        "images are whole numbers from 0 to 255 (scale all splits alike)");
  CHECK(error({-1, 0.5F, 1, 0.25F}, levels) ==
        "data: set.npz: test_images: holds the value 200, but the training "
        "images have another range (scale all splits alike)");
}

TEST_CASE("float images that are not finite are refused") {
  NpzFile file;
  CHECK(file.error(tiny(std::vector<float>{0, std::nanf(""), 1, 0})) ==
        "data: set.npz: train_images: holds the value nan (replace what is not "
        "finite, e.g. by numpy.nan_to_num)");
}

TEST_CASE(
    "images with the channels first are distinguished from those of strips") {
  NpzFile file;
  const Bytes values(2 * 3 * 8 * 8);
  CHECK(file.error(tiny(npy_bytes("|u1", {2, 3, 8, 8}, values))) ==
        "data: set.npz: train_images: has the shape [2, 3, 8, 8], which looks "
        "like [N, channels, height, width], expected [N, height, width, "
        "channels] (save images.transpose(0, 2, 3, 1))");
  const SourceData strips =
      file.read(tiny(npy_bytes("|u1", {2, 1, 64, 3}, values)));
  CHECK(strips.train.width == 64);
}

TEST_CASE("NPZ arrays of the wrong type, shape or range are refused") {
  NpzFile file;
  CHECK(file.error(tiny(npy_bytes("|S4", {2, 1, 1}, Bytes(8)))) ==
        "data: set.npz: train_images: holds values of type '|S4'; expected "
        "numbers");
  CHECK(
      file.error(tiny(npy_bytes("<i2", {2, 1, 2}, {1, 0, 2, 0, 3, 0, 0, 1}))) ==
      "data: set.npz: train_images: holds the value 256, outside 0 to 255 "
      "(scale them to [0, 1] as float32, or to 0 .. 255)");
  CHECK(file.error(tiny(npy_bytes("|u1", {2, 2}, {1, 2, 3, 4}))) ==
        "data: set.npz: train_images: has the shape [2, 2], expected [N, "
        "height, width] or [N, height, width, channels]");
  Members members = tiny(npy_bytes("|u1", {2, 1, 2}, {1, 2, 3, 4}));
  members["train_labels"] = npy_bytes("|u1", {2, 2}, {0, 1, 1, 0});
  CHECK(file.error(members) ==
        "data: set.npz: train_labels: has the shape [2, 2], expected one label "
        "a sample: [N] or [N, 1] (one-hot labels: save labels.argmax(1); "
        "several labels a sample cannot be used)");
  members["train_labels"] = npy_bytes("|u1", {3}, {0, 1, 1});
  CHECK(file.error(members) ==
        "data: set.npz: train_labels holds 3 labels, but train_images holds 2 "
        "images");
  members["train_labels"] = npy_bytes("<f4", {2}, Bytes(8));
  CHECK(file.error(members) ==
        "data: set.npz: train_labels: holds values of type '<f4'; labels must "
        "be integers (convert them with .astype('int64'))");
  members["train_labels"] = npy_bytes("|S4", {2}, Bytes(8));
  CHECK(file.error(members) ==
        "data: set.npz: train_labels: holds values of type '|S4'; labels must "
        "be integers (convert them with numpy.unique(labels, "
        "return_inverse=True)[1])");
  members["train_labels"] = npy_bytes("|i1", {2}, {0, 255});
  CHECK(file.error(members) ==
        "data: set.npz: training labels reach from -1 to 0 (labels are 0, 1, "
        "... classes - 1)");
}

TEST_CASE("an NPZ file whose splits disagree is refused") {
  NpzFile file;
  const Members train = npz_split("train", 4, 2);
  CHECK(file.error(npz_split("test", 4, 2)) ==
        "data: set.npz: has no train_images and train_labels (it holds: "
        "test_images.npy, test_labels.npy)");
  Members half = train;
  half.erase("train_labels");
  CHECK(file.error(half) ==
        "data: set.npz: has train_images, but no train_labels");
  CHECK(file.error(join(train, npz_split("test", 4, 3))) ==
        "data: set.npz: test labels: label 2 of sample 2 is out of range "
        "(labels of 2 classes are 0 to 1)");
  CHECK(file.error(join(train, npz_split("val", 4, 2, 3))) ==
        "data: set.npz: val images are 4x5x3, training images 4x5x1");
  CHECK(file.error(npz_split("train", 0, 2)) ==
        "data: set.npz: holds no training images");
}

TEST_CASE("an NPZ header that claims more than it holds is refused at once") {
  NpzFile file;
  CHECK(file.error(tiny(npy_bytes("|u1", {1000000000, 28, 28}, {1, 2}))) ==
        "data: set.npz: train_images: claims 1000000000x28x28 values of 1 "
        "bytes, but holds 2 bytes (damaged; fetch the file again)");
  CHECK(file.error(tiny(npy_bytes("|u1", {1LL << 60, 1LL << 60}, {1}))) ==
        "data: set.npz: train_images: the .npy header claims an impossible "
        "shape");
}

TEST_CASE("a zip bomb's claim is refused before anything is allocated") {
  NpzFile file;
  write_npz(file.path, tiny(npy_bytes("|u1", {2, 1, 2}, {1, 2, 3, 4})));
  Bytes zip = read_bytes(file.path);
  const std::string text(zip.begin(), zip.end());
  const size_t entry = central_entry(zip, "train_images.npy");
  const size_t local = text.find("train_images.npy") - 30;
  REQUIRE(text.substr(entry, 2) == "PK");
  for (const size_t at : {entry + 24, local + 22}) {
    zip[at + 3] = 0x7f;  // two GiB uncompressed
  }
  write_bytes(file.path, zip);
  CHECK(file.error().find("data: set.npz: train_images.npy: claims 2.0 GiB, "
                          "more than its ") == 0);
}

TEST_CASE("a damaged archive says so") {
  NpzFile file;
  write_npz(file.path, npz_split("train", 40, 2), Packing::stored);
  const Bytes good = read_bytes(file.path);
  Bytes altered = good;
  altered[good.size() / 3] ^= 0x40;  // a pixel
  write_bytes(file.path, altered);
  CHECK(file.error() ==
        "data: set.npz: train_images.npy: is damaged: CRC error (fetch the "
        "file again)");
  write_bytes(file.path, Bytes(good.begin(), good.end() - 100));
  CHECK(file.error() ==
        "data: set.npz: cannot be read as a zip archive: Not a zip archive (an "
        ".npz file as numpy.savez writes is expected)");
  write_bytes(file.path, {});
  CHECK(file.error().find("data: set.npz: cannot be read as a zip archive") ==
        0);
}

TEST_CASE("members that are not .npy arrays are refused") {
  NpzFile file;
  CHECK(file.error(tiny(bytes_of("short"))) ==
        "data: set.npz: train_images: is not an .npy array (too short)");
  CHECK(file.error(tiny(bytes_of("this is just some text"))) ==
        "data: set.npz: train_images: is not an .npy array (its magic is "
        "missing)");
  Bytes newer = npy_bytes("|u1", {2, 1, 2}, {1, 2, 3, 4});
  newer[6] = 9;
  CHECK(file.error(tiny(newer)) ==
        "data: set.npz: train_images: is of .npy version 9.0; 1 to 3 are read");
}
