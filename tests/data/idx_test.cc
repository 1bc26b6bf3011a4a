#include "dtune/data/idx.h"

#include "data/fixtures.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

std::string parse_error(const Bytes& bytes, int dimensions = 3) {
  return error_of([&] { parse_idx(bytes, dimensions, "f.gz"); }, "/");
}

}  // namespace

TEST_CASE("plain and gzip IDX give the same array") {
  const Bytes plain = idx_bytes({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  for (const Bytes& bytes : {plain, gzip(plain)}) {
    const IdxArray array = parse_idx(bytes, 3, "f");
    CHECK(array.shape == std::vector<int64_t>{2, 1, 3});
    CHECK(array.values == Bytes{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("gzip data in several members are read through") {
  const Bytes plain = idx_bytes({4}, {1, 2, 3, 4});
  Bytes joined = gzip(Bytes(plain.begin(), plain.begin() + 6));
  const Bytes rest = gzip(Bytes(plain.begin() + 6, plain.end()));
  joined.insert(joined.end(), rest.begin(), rest.end());
  CHECK(parse_idx(joined, 1, "f").values == Bytes{1, 2, 3, 4});
}

TEST_CASE("a damaged IDX file says what is wrong with it") {
  const Bytes good = idx_bytes({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(parse_error({}) ==
        "data: f.gz: is truncated: 0 bytes are not an IDX file");
  CHECK(
      parse_error(bytes_of("<html>not found")) ==
      "data: f.gz: is neither gzip nor IDX (it starts with 3c 68 74 6d; fetch "
      "the file again)");
  CHECK(parse_error(gzip(bytes_of("<html>not found"))) ==
        "data: f.gz: holds no IDX data (it starts with 3c 68 74 6d; fetch the "
        "file again)");
  CHECK(parse_error({0, 0, 13, 3}) ==
        "data: f.gz: holds values of IDX type 0x0d; only 0x08 (unsigned bytes) "
        "is read");
  CHECK(parse_error(good, 1) ==
        "data: f.gz: has 3 dimensions, expected 1 (are image and label files "
        "swapped?)");
  CHECK(parse_error({0, 0, 8, 3, 0, 0}) ==
        "data: f.gz: is truncated within its header");
  Bytes longer = good;
  longer.push_back(7);
  CHECK(parse_error(longer) ==
        "data: f.gz: holds more bytes than its header says");
}

TEST_CASE("a header that claims more than its file holds is refused at once") {
  CHECK(parse_error(idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, {1})) ==
        "data: f.gz: claims 4294967295x4294967295x4294967295 values, more than "
        "its 17 bytes can hold (truncated or damaged; fetch it again)");
  const Bytes bomb = gzip(idx_bytes({60000, 28, 28}, {1, 2, 3}));
  CHECK(parse_error(bomb).find("claims 60000x28x28 values, more than its") !=
        std::string::npos);
  CHECK(parse_error(gzip(idx_bytes({2, 2, 2}, {1, 2, 3}))) ==
        "data: f.gz: is truncated: 3 of 8 values are there (fetch the file "
        "again)");
}

TEST_CASE("gzip data that are cut or altered are refused") {
  Bytes values(5000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint8_t>(i * i >> 3);
  }
  const Bytes good = gzip(idx_bytes({5, 10, 100}, values));
  Bytes cut(good.begin(), good.begin() + std::ptrdiff_t(good.size() / 2));
  CHECK(
      parse_error(cut) ==
      "data: f.gz: is truncated: the gzip data are incomplete (fetch the file "
      "again)");
  Bytes altered = good;
  altered[altered.size() - 6] ^= 1;  // the check sum
  CHECK(parse_error(altered) ==
        "data: f.gz: is damaged: incorrect data check (fetch the file again)");
}

TEST_CASE("a folder of four IDX files is read with its names") {
  TemporaryDirectory folder;
  write_idx_folder(folder.path(), 30, 10);
  const SourceData data = read_idx_folder(
      folder.path(), {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(data.train.count() == 30);
  CHECK(data.test.count() == 10);
  CHECK(data.validation.count() == 0);
  CHECK(data.train.labels[13] == 3);
  CHECK(data.train.images[13 * 784 + 5] == 35);
}

TEST_CASE("an IDX folder whose files disagree is refused") {
  TemporaryDirectory folder;
  const auto& root = folder.path();
  const auto read = [&] { read_idx_folder(root, {"a", "b", "c"}); };
  CHECK(
      error_of(read, root.parent_path()) ==
      "data: " + root.filename().string() +
          ": has no train-images-idx3-ubyte.gz (four files are expected: "
          "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
          "t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz, each with or "
          "without .gz)");
  write_idx_folder(root, 20, 10);
  CHECK(error_of(read, root) ==
        "data: train-labels-idx1-ubyte.gz: label 3 of sample 3 is out of range "
        "(labels of 3 classes are 0 to 2)");
  write_bytes(root / "train-labels-idx1-ubyte.gz",
              gzip(idx_bytes({2}, {0, 1})));
  CHECK(error_of(read, root) ==
        "data: train-labels-idx1-ubyte.gz: holds 2 labels, but "
        "train-images-idx3-ubyte.gz holds 20 images");
  write_bytes(root / "train-images-idx3-ubyte.gz",
              idx_bytes({1, 2, 2}, {1, 2, 3, 4}));
  CHECK(
      error_of(read, root) ==
      "data: train-images-idx3-ubyte.gz: holds images of 2x2 pixels, expected "
      "28x28 (use kind: npz for other sizes)");
}
