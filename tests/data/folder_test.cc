#include "dtune/data/folder.h"

#include "data/fixtures.h"
#include "data/load_images.h"
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/error.h"

using namespace dtune;
using namespace dtune::testing;

namespace {

namespace fs = std::filesystem;

// A folder of class folders that grows file by file.
struct ImageFolder {
  TemporaryDirectory folder;
  fs::path root = folder.path();
  DataSpec spec;

  void add(const std::string& name, const Bytes& bytes) {
    fs::create_directories((root / name).parent_path());
    write_bytes(root / name, bytes);
  }
  SourceData read() {
    SourceData data = open_image_folder(root, spec);
    load_images(data);
    return data;
  }
  std::string error() {
    std::string text = error_of([&] { read(); }, root);
    const std::string whole = root.string();
    const size_t at = text.find(whole);
    if (at != std::string::npos) text.replace(at, whole.size(), "ROOT");
    return text;
  }
};

Bytes gray_png(uint8_t value, int height = 4, int width = 6) {
  return png_bytes(flat_image(height, width, {value}));
}

}  // namespace

TEST_CASE("class folders are read in order of their names") {
  ImageFolder images;
  images.add("dog/2.png", gray_png(20));
  images.add("dog/1.png", gray_png(10));
  images.add("Cat/x.JPEG", jpeg_bytes(flat_image(4, 6, {90})));
  images.add("ant/deep/1.png", gray_png(30));
  images.add("ant/notes.txt", bytes_of("no image"));
  images.add(".cache/1.png", gray_png(40));
  images.add("readme.md", bytes_of("no class"));
  const SourceData data = images.read();
  CHECK(data.class_names == std::vector<std::string>{"Cat", "ant", "dog"});
  CHECK(data.train.labels == std::vector<int32_t>{0, 1, 2, 2});
  CHECK(data.train.height == 4);
  CHECK(data.train.width == 6);
  CHECK(data.train.channels == 3);
  const size_t pixels = 4 * 6 * 3;
  CHECK(data.train.images.size() == 4 * pixels);
  CHECK(data.train.images[2 * pixels] == 10);
  CHECK(data.train.images[3 * pixels] == 20);
  CHECK(data.test.count() == 0);
}

TEST_CASE("train, validation and test folders are kept apart") {
  ImageFolder images;
  for (const char* split : {"train", "valid", "test"}) {
    for (const char* name : {"a", "b"}) {
      images.add(std::string(split) + "/" + name + "/1.png", gray_png(1));
    }
  }
  images.add("test/b/2.png", gray_png(2));
  const SourceData data = images.read();
  CHECK(data.train.count() == 2);
  CHECK(data.validation.count() == 2);
  CHECK(data.test.labels == std::vector<int32_t>{0, 1, 1});
}

TEST_CASE("a class may be called train") {
  ImageFolder images;
  images.add("train/1.png", gray_png(1));
  images.add("car/1.png", gray_png(1));
  CHECK(images.read().class_names == std::vector<std::string>{"car", "train"});
}

TEST_CASE("images get the recipe's size, or what follows from the first") {
  ImageFolder images;
  images.spec.gray = true;
  images.add("a/1.png", gray_png(10, 8, 12));
  images.add("b/1.png", gray_png(20, 30, 30));
  const auto shape = [&](int height, int width) {
    images.spec.height = height;
    images.spec.width = width;
    const ImageSet set = images.read().train;
    CHECK(set.channels == 1);
    CHECK(set.images.size() == size_t(2 * set.height * set.width));
    CHECK(set.images.back() == 20);
    return std::pair{set.height, set.width};
  };
  CHECK(shape(0, 0) == std::pair{8, 12});
  CHECK(shape(5, 7) == std::pair{5, 7});
  CHECK(shape(4, 0) == std::pair{4, 6});
  CHECK(shape(0, 24) == std::pair{16, 24});
}

TEST_CASE("an image folder that is wrong says which file and why") {
  ImageFolder images;
  CHECK(images.error() ==
        "data: ROOT: has 0 class folders; at least two are needed (one folder "
        "of images per class, or such folders in train/, val/ and test/)");
  images.add("a/1.png", gray_png(1));
  CHECK(images.error() ==
        "data: ROOT: has 1 class folder; at least two are needed (one folder "
        "of images per class, or such folders in train/, val/ and test/)");
  fs::create_directories(images.root / "b");
  CHECK(images.error() ==
        "data: b: holds no images (.png, .jpg or .jpeg; delete the folder if "
        "it is not a class)");
  images.add("b/broken.png", bytes_of("oops"));
  CHECK(images.error() ==
        "data: b/broken.png: is neither PNG nor JPEG (convert it, or give it "
        "another ending)");
}

TEST_CASE("links to images and to folders are followed") {
  ImageFolder images;
  images.add("elsewhere/deep/1.png", gray_png(10));
  const fs::path elsewhere = images.root / "elsewhere";
  images.root /= "classes";
  images.add("a/1.png", gray_png(1));
  fs::create_directory_symlink(elsewhere, images.root / "a" / "more");
  fs::create_directory_symlink(elsewhere / "deep", images.root / "b");
  CHECK(images.read().train.labels == std::vector<int32_t>{0, 0, 1});
}

TEST_CASE("a link that leads nowhere is an error, not an image fewer") {
  ImageFolder images;
  images.add("a/1.png", gray_png(1));
  images.add("b/1.png", gray_png(1));
  fs::create_symlink("gone.txt", images.root / "a" / "notes.txt");
  CHECK(images.read().train.count() == 2);
  const std::string why = "which does not exist (mend or delete the link)";
  SUBCASE("an image") {
    fs::create_symlink("gone.png", images.root / "b" / "2.png");
    CHECK(images.error() == "data: b/2.png: is a link to gone.png, " + why);
  }
  SUBCASE("a class") {
    fs::create_symlink("gone", images.root / "c");
    CHECK(images.error() == "data: c: is a link to gone, " + why);
  }
}

TEST_CASE("images of kinds that are not read are skipped with a note") {
  ImageFolder images;
  images.add("a/1.png", gray_png(1));
  images.add("b/1.png", gray_png(1));
  CHECK(images.read().notes.empty());
  images.add("a/2.GIF", bytes_of("GIF89a"));
  images.add("b/3.webp", bytes_of("RIFF"));
  images.add("b/4.webp", bytes_of("RIFF"));
  images.add("b/notes.txt", bytes_of("no image"));
  CHECK(images.read().notes ==
        std::vector<std::string>{
            "images of kinds that are not read were skipped: 1 .gif, 2 .webp "
            "(convert them to PNG or JPEG)"});
  images.add("c/1.bmp", bytes_of("BM"));
  CHECK(images.error() ==
        "data: c: holds no PNG or JPEG images, but 1 .bmp (convert them to "
        "PNG)");
}

TEST_CASE("images that are in no split or class are said not to be used") {
  ImageFolder images;
  for (const char* name : {"a", "b"}) {
    images.add(fmt::format("{}/1.png", name), gray_png(1));
  }
  images.add(".hidden.png", gray_png(1));
  CHECK(images.read().notes.empty());
  images.add("loose.png", gray_png(1));
  CHECK(images.read().notes ==
        std::vector<std::string>{
            "1 image beside the class folders is not used (each class has a "
            "folder of its own)"});
}

TEST_CASE("folders beside train/ that are no split are said not to be used") {
  ImageFolder images;
  for (const char* split : {"train", "valid", "Test", "holdout"}) {
    images.add(fmt::format("{}/a/1.png", split), gray_png(1));
    images.add(fmt::format("{}/b/1.png", split), gray_png(1));
  }
  images.add("train/loose.jpg", gray_png(1));
  const SourceData data = images.read();
  CHECK(data.validation.count() == 2);
  CHECK(data.test.count() == 0);
  CHECK(data.notes ==
        std::vector<std::string>{
            "beside train/ these folders are not used: Test, holdout (splits "
            "are called train, val and test)",
            "1 image beside the class folders is not used (each class has a "
            "folder of its own)"});
}

TEST_CASE("all images that do not decode are named at once") {
  ImageFolder images;
  for (const char* name :
       {"train/a/2.png", "train/b/1.png", "val/a/1.png", "test/b/1.png"}) {
    images.add(name, gray_png(1));
  }
  images.add("train/a/1.png", bytes_of("GIF89a"));
  images.add("train/b/2.png", {});
  images.add("val/a/3.jpg", bytes_of("oops"));
  std::string text = images.error();
  for (size_t at = 0;
       (at = text.find(images.root.string() + "/", at)) != std::string::npos;) {
    text.erase(at, images.root.string().size() + 1);
  }
  CHECK(
      text ==
      "data: ROOT: 3 images cannot be read:\n"
      "  train/a/1.png: is a GIF, not PNG or JPEG (convert it, or give it "
      "another ending)\n"
      "  train/b/2.png: is empty (delete or replace it)\n"
      "  val/a/3.jpg: is neither PNG nor JPEG (convert it, or give it another "
      "ending)");
}

TEST_CASE("a class that the training images do not have is refused") {
  ImageFolder images;
  for (const char* name : {"train/a/1.png", "train/b/1.png", "test/c/1.png"}) {
    images.add(name, gray_png(1));
  }
  CHECK(images.error() ==
        "data: test/c: is a class that the training images do not have (add a "
        "folder 'c' to train/, or delete it)");
}
