#include "dtune/data/cifar.h"

#include "data/fixtures.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

namespace fs = std::filesystem;

// One record: red `r`, green `g`, blue `b` but for the first pixel, 1 2 3.
Bytes record(const Bytes& labels, uint8_t r, uint8_t g, uint8_t b) {
  Bytes bytes = labels;
  for (const auto& [colour, first] :
       {std::pair{r, 1}, std::pair{g, 2}, std::pair{b, 3}}) {
    bytes.push_back(static_cast<uint8_t>(first));
    bytes.insert(bytes.end(), 1023, colour);
  }
  return bytes;
}

void write_cifar10(const fs::path& folder) {
  fs::create_directories(folder);
  for (int i = 1; i <= 5; ++i) {
    write_bytes(folder / ("data_batch_" + std::to_string(i) + ".bin"),
                record({uint8_t(i)}, 10, 20, 30));
  }
  write_bytes(folder / "test_batch.bin", record({9}, 1, 1, 1));
}

}  // namespace

TEST_CASE("CIFAR records become interleaved pixels") {
  ImageSet set;
  parse_cifar(record({3, 42}, 10, 20, 30), CifarKind::cifar100, "f", set);
  CHECK(set.labels == std::vector<int32_t>{42});
  CHECK(set.images.size() == 3072);
  CHECK(Bytes(set.images.begin(), set.images.begin() + 6) ==
        Bytes{1, 2, 3, 10, 20, 30});
}

TEST_CASE("CIFAR-10 is found in the folder or in its archive's folder") {
  TemporaryDirectory folder;
  for (const char* inner : {"plain", "outer/cifar-10-batches-bin"}) {
    write_cifar10(folder.path() / inner);
  }
  for (const char* name : {"plain", "outer"}) {
    const SourceData data =
        read_cifar_folder(folder.path() / name, CifarKind::cifar10);
    CHECK(data.train.labels == std::vector<int32_t>{1, 2, 3, 4, 5});
    CHECK(data.test.labels == std::vector<int32_t>{9});
    CHECK(data.class_names[9] == "truck");
  }
}

TEST_CASE("CIFAR-100 takes its names from the file beside the data") {
  TemporaryDirectory folder;
  std::string names;
  for (int i = 0; i < 100; ++i) names += "thing" + std::to_string(i) + "\n";
  write_bytes(folder.path() / "train.bin", record({0, 1}, 1, 1, 1));
  write_bytes(folder.path() / "test.bin", record({0, 2}, 1, 1, 1));
  write_bytes(folder.path() / "fine_label_names.txt", bytes_of(names));
  const SourceData data = read_cifar_folder(folder.path(), CifarKind::cifar100);
  CHECK(data.class_names.size() == 100);
  CHECK(data.class_names[7] == "thing7");
}

TEST_CASE("a damaged CIFAR file says what is wrong with it") {
  TemporaryDirectory folder;
  const fs::path& root = folder.path();
  const auto read = [&] { read_cifar_folder(root, CifarKind::cifar10); };
  write_cifar10(root);
  fs::remove(root / "data_batch_3.bin");
  CHECK(error_of(read, root.parent_path()) ==
        "data: " + root.filename().string() +
            ": has no data_batch_3.bin (unpack the binary version from "
            "https://www.cs.toronto.edu/~kriz/cifar.html there)");
  write_bytes(root / "data_batch_3.bin", Bytes(3000, 1));
  CHECK(error_of(read, root) ==
        "data: data_batch_3.bin: is 3000 bytes long, not a whole number of "
        "records of 3073 bytes (truncated, or not the binary version of the "
        "data set)");
  write_bytes(root / "data_batch_3.bin", record({10}, 1, 1, 1));
  CHECK(error_of(read, root) ==
        "data: data_batch_3.bin: label 10 of sample 0 is out of range (labels "
        "of 10 classes are 0 to 9)");
}
