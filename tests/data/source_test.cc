#include "dtune/data/source.h"

#include <cmath>

#include "data/fixtures.h"
#include "skip.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/data/prepared.h"
#include "dtune/study/data_shape.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

namespace fs = std::filesystem;

std::string read_error(DataKind kind, const std::string& path) {
  DataSpec spec;
  spec.kind = kind;
  spec.path = path;
  return error_of([&] { open_source(spec); }, fs::temp_directory_path() / "no");
}

}  // namespace

TEST_CASE("a source that is missing names the package or the layout") {
  const std::string none = (fs::temp_directory_path() / "no/set").string();
  CHECK(read_error(DataKind::fashion_mnist, none) ==
        "data: set: does not exist (data.path names the folder of four IDX "
        "files; without it the package dataset-fashion-mnist is used)");
  CHECK(read_error(DataKind::mnist, "") ==
        "config: data.path: is missing for kind mnist (data.path names the "
        "folder of four IDX files, train-images-idx3-ubyte.gz and so on)");
  CHECK(read_error(DataKind::npz, none) ==
        "data: set: does not exist (data.path names an .npz file with "
        "train_images and train_labels)");
  CHECK(read_error(DataKind::cifar10, none) ==
        "data: set: does not exist (data.path names the folder of "
        "data_batch_1.bin and so on: the binary version from "
        "https://www.cs.toronto.edu/~kriz/cifar.html)");
  CHECK(read_error(DataKind::folder, none) ==
        "data: set: does not exist (data.path names a folder with one folder "
        "of images per class)");
}

TEST_CASE("a file in a folder's place, or a folder in a file's, is refused") {
  TemporaryDirectory folder;
  write_bytes(folder.path() / "file", {1});
  CHECK(read_error(DataKind::folder, (folder.path() / "file").string())
            .find("file: is not a folder (data.path names a folder with one") !=
        std::string::npos);
  CHECK(read_error(DataKind::npz, folder.path().string())
            .find(": is a folder (data.path names an .npz file") !=
        std::string::npos);
}

TEST_CASE("shapes that are known match what is read") {
  DataSpec spec;
  spec.kind = DataKind::synthetic;
  spec.channels = 2;
  spec.samples = 50;
  const DataShape known = known_data_shape(spec);
  const SourceData data = open_source(spec);
  CHECK(known.image.channels == data.train.channels);
  CHECK(known.image.height == data.train.height);
  CHECK(known.image.width == data.train.width);
  CHECK(known.classes == int(data.class_names.size()));
}

TEST_CASE("the system's Fashion-MNIST is read whole") {
  const DataSpec spec;
  if (!fs::exists(source_path(spec))) {
    return skip(source_path(spec).string() +
                " is missing (apt-get install dataset-fashion-mnist)");
  }
  TemporaryDirectory cache;
  const PreparedData data(prepare_data(spec, cache.path()));
  CHECK(data.count(Split::train) == 54000);
  CHECK(data.count(Split::validation) == 6000);
  CHECK(data.count(Split::test) == 10000);
  CHECK(data.image_shape() == known_data_shape(spec).image);
  CHECK(data.classes() == known_data_shape(spec).classes);
  CHECK(data.class_names()[9] == "ankle boot");
  CHECK(data.labels(Split::test)[0] == 9);  // the set's first test image
  // Of all 60,000 images: 0.2860 and 0.3530; a tenth is validation.
  CHECK(std::abs(data.mean()[0] - 0.2860) < 1e-3);
  CHECK(std::abs(data.deviation()[0] - 0.3530) < 1e-3);
}

TEST_CASE("the real PneumoniaMNIST is read with its own splits") {
  const fs::path path =
      fs::path(DTUNE_SOURCE_DIR) / "../shared/data/pneumoniamnist.npz";
  if (!fs::exists(path)) {
    return skip(path.string() + " is missing");
  }
  DataSpec spec;
  spec.kind = DataKind::npz;
  spec.path = path.string();
  TemporaryDirectory cache;
  const PreparedData data(prepare_data(spec, cache.path()));
  CHECK(data.count(Split::train) == 3882);
  CHECK(data.count(Split::validation) == 524);
  CHECK(data.count(Split::test) == 624);
  CHECK(data.classes() == 2);
  CHECK(data.image_shape() ==
        Shape{.channels = 1, .height = 28, .width = 28, .flat = false});
}
