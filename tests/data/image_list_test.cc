#include "dtune/data/image_list.h"

#include "data/fixtures.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test
using namespace dtune::testing;

namespace {

namespace fs = std::filesystem;

struct Place {
  TemporaryDirectory folder;
  fs::path root = folder.path();

  fs::path add(const std::string& name, const Bytes& bytes) const {
    fs::create_directories((root / name).parent_path());
    write_bytes(root / name, bytes);
    return root / name;
  }
  std::string error(const std::vector<fs::path>& paths,
                    const Shape& shape) const {
    return error_of([&] { ImageList(paths, shape); }, root);
  }
};

constexpr Shape kGrey = {.channels = 1, .height = 2, .width = 3};
constexpr Shape kColour = {.channels = 3, .height = 2, .width = 3};

}  // namespace

TEST_CASE("files and folders are listed in order and brought to one shape") {
  const Place place;
  const fs::path file =
      place.add("z.jpg", jpeg_bytes(flat_image(4, 6, {200, 100, 50})));
  place.add("photos/b/1.png", png_bytes(flat_image(2, 3, {40})));
  place.add("photos/a.PNG", png_bytes(flat_image(8, 8, {10, 20, 30})));
  place.add("photos/.hidden.png", png_bytes(flat_image(2, 3, {1})));
  place.add("photos/notes.txt", bytes_of("no image"));
  const ImageList list({file, place.root / "photos"}, kColour);
  REQUIRE(list.count() == 3);
  CHECK(list.name(0) == file.string());
  CHECK(list.name(1) == (place.root / "photos/a.PNG").string());
  CHECK(list.name(2) == (place.root / "photos/b/1.png").string());
  for (size_t i = 0; i < 3; ++i) CHECK(list.read(i).pixels.size() == 18);
  CHECK(list.read(1).pixels[0] == 10);
  CHECK(list.read(1).pixels[17] == 30);
  CHECK(list.read(2).pixels == Bytes(18, 40));
  const ImageList grey({place.root / "photos/a.PNG"}, kGrey);
  CHECK(grey.read(0).pixels == Bytes(6, 18));  // ITU-R BT.601
}

TEST_CASE("arrays of images count, one by one; labels do not") {
  const Place place;
  const fs::path path = place.root / "set.npz";
  auto members = npz_split("test", 5, 2, 3);
  members["extra"] = npy_bytes("|u1", {2, 2, 3}, Bytes(12, 7));
  write_npz(path, members);
  const ImageList list({path}, kColour);
  REQUIRE(list.count() == 7);
  std::vector<std::string> names;
  for (size_t i = 0; i < 7; ++i) names.push_back(list.name(i));
  CHECK(std::count(names.begin(), names.end(),
                   path.string() + ":test_images[4]") == 1);
  CHECK(std::count(names.begin(), names.end(), path.string() + ":extra[1]") ==
        1);
  for (size_t i = 0; i < 7; ++i) {
    const Image image = list.read(i);
    CHECK(image.height == 2);
    CHECK(image.width == 3);
    CHECK(image.channels == 3);
    if (names[i].find("extra") != std::string::npos) {
      CHECK(image.pixels == Bytes(18, 7));
    }
  }
}

TEST_CASE("files that are not images are named") {
  const Place place;
  fs::create_directories(place.root / "empty");
  CHECK(place.error({place.root / "none.png"}, kGrey) ==
        "data: none.png: there is no such file or folder");
  CHECK(place.error({place.root / "empty"}, kGrey) ==
        "data: empty: holds no images (.png, .jpg or .jpeg)");
  write_npz(place.root / "l.npz",
            {{"labels", npy_bytes("|u1", {3}, {0, 1, 2})}});
  CHECK(place.error({place.root / "l.npz"}, kGrey) ==
        "data: l.npz: holds no array of images ([N, height, width] or "
        "[N, height, width, channels])");
  write_npz(place.root / "c.npz",
            {{"x", npy_bytes("|u1", {1, 2, 3, 2}, Bytes(12))}});
  CHECK(place.error({place.root / "c.npz"}, kGrey) ==
        "data: c.npz:x: has images of 2 channels, but the model takes 1");
  write_npz(
      place.root / "f.npz",
      {{"x", npy_bytes("<f4", {1, 1, 2}, {0, 0, 0, 0, 0, 0, 0x20, 0x40})}});
  CHECK(place.error({place.root / "f.npz"}, kGrey) ==
        "data: f.npz: x: holds floats outside of [0, 1], whose scale is not "
        "known (save pixels of 0 to 255, or floats in [0, 1])");
  const fs::path png = place.add("a.png", png_bytes(flat_image(2, 3, {1})));
  CHECK(place.error({png}, {.channels = 4, .height = 2, .width = 3}) ==
        "data: a.png: is an image file, but the model takes images of 4 "
        "channels (give it an .npz archive)");

  const ImageList broken({place.add("b.png", bytes_of("nonsense"))}, kGrey);
  CHECK(error_of([&] { broken.read(0); }, place.root)
            .starts_with("data: b.png: is neither PNG nor JPEG"));
}
