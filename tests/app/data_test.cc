// The user's own data: what is accepted, what is said of it, what is refused.
#include <algorithm>

#include "app/program.h"
#include "data/fixtures.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

namespace fs = std::filesystem;

constexpr const char* kNpzRecipe =
    "study: set\n"
    "data: { kind: npz, path: set.npz, validation: 8 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "train: { epochs: 1, batch_size: 16 }\n"
    "budget: { trials: 1 }\n";

constexpr const char* kFolderRecipe =
    "study: pictures\n"
    "data: { kind: folder, path: images, size: 8, gray: true,"
    " validation: 0.3, test: 0.2 }\n"
    "model: { arch: cnn-small, width: 4 }\n"
    "budget: { trials: 1 }\n";

// `count` images of 8x8, of shape `shape`; pixel p of image i is `pixel(i, p)`.
template <typename Pixel>
Bytes images(std::vector<int64_t> shape, const Pixel& pixel) {
  std::vector<float> values;
  for (int i = 0; i < shape[0]; ++i) {
    for (int p = 0; p < 64; ++p) {
      values.push_back(static_cast<float>(pixel(i, p)));
    }
  }
  return npy_bytes("<f4", shape, float_bytes(values));
}

Bytes labels(int count, int classes) {
  Bytes values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<uint8_t>(i % classes));
  }
  return npy_bytes("|u1", {count}, values);
}

double level(int i, int p) { return (i * 37 + p * 11) % 256; }

// Both commands refuse it in one line, and no study is left.
void check_refused(const Workplace& place, const std::string& text) {
  for (const char* command : {"plan", "run"}) {
    CAPTURE(command);
    const Outcome outcome = place.run({command, "set.yaml"});
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, text), outcome.err);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
  CHECK_FALSE(place.has("set.db"));
}

std::string notes_of(const Outcome& outcome) {
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  return nlohmann::json::parse(outcome.out)["data"]["notes"].dump();
}

Bytes gray_png(int value) {
  return png_bytes(flat_image(8, 8, {static_cast<uint8_t>(value)}));
}

void add_image(const Workplace& place, const std::string& name,
               const Bytes& bytes) {
  fs::create_directories((place / name).parent_path());
  write_bytes(place / name, bytes);
}

// Eight images each of two classes.
void add_classes(const Workplace& place) {
  for (int i = 0; i < 8; ++i) {
    add_image(place, fmt::format("images/cat/{}.png", i), gray_png(10 * i));
    add_image(place, fmt::format("images/dog/{}.png", i), gray_png(9 * i));
  }
  place.write("pictures.yaml", kFolderRecipe);
}

}  // namespace

TEST_CASE("float images are taken, and plan says how they are stored") {
  const Workplace place;
  place.write("set.yaml", kNpzRecipe);
  SUBCASE("in [0, 1]") {
    write_npz(
        place / "set.npz",
        {{"train_images",
          images({40, 8, 8}, [](int i, int p) { return level(i, p) / 255; })},
         {"train_labels", labels(40, 2)}});
    CHECK(contains(notes_of(place.run({"plan", "set.yaml", "--json"})),
                   "float32 in [0, 1]: they are stored as 0 to 255"));
  }
  SUBCASE("standardised") {
    write_npz(place / "set.npz",
              {{"train_images",
                images({40, 8, 8},
                       [](int i, int p) { return level(i, p) / 128 - 1; })},
               {"train_labels", labels(40, 2)}});
    CHECK(contains(notes_of(place.run({"plan", "set.yaml", "--json"})),
                   "float32 from -1 to 0.9922: each channel's range is stored "
                   "as 0 to 255"));
  }
  CHECK_FALSE(contains(place.run({"plan", "set.yaml"}).err, "astype"));
}

TEST_CASE("data that changed since a study began are said to have") {
  if (!kTrains) return skip("this build does not train");
  Workplace place;
  const std::string changed = "the data have changed since the study ";
  const auto write = [&place](int count, double first) {
    write_npz(place / "set.npz",
              {{"train_images", images({count, 8, 8},
                                       [first](int i, int p) {
                                         return i + p == 0 ? first
                                                           : level(i, p);
                                       })},
               {"train_labels", labels(count, 4)}});
  };
  write(60, 1);
  place.write("set.yaml", kNpzRecipe);
  REQUIRE(place.run({"run", "set.yaml", "--quiet"}).code == 0);
  CHECK_FALSE(contains(place.run({"eval", "set.db"}).err, changed));
  CHECK_FALSE(
      contains(place.run({"resume", "set.db", "--trials", "+1"}).err, changed));
  write(80, 1);
  const Outcome eval = place.run({"eval", "set.db"});
  CHECK(eval.code == 0);
  CHECK_MESSAGE(contains(eval.err, changed + "of this model began: there are "),
                eval.err);
  CHECK_FALSE(contains(place.run({"eval", "set.db", "--data", "set.npz"}).err,
                       changed));
  const Outcome more = place.run({"resume", "set.db", "--trials", "+1"});
  CHECK(more.code == 0);
  CHECK_MESSAGE(contains(more.err, changed + "began: there are "), more.err);
  CHECK(contains(more.err, " training images, there were "));
  write(60, 99);
  const Outcome other = place.run({"resume", "set.db", "--trials", "+1"});
  CHECK(other.code == 0);
  CHECK_MESSAGE(contains(other.err, " images or their labels are others"),
                other.err);
}

TEST_CASE("a set of one class is refused: nothing can be learnt of it") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  place.write("set.yaml", kNpzRecipe);
  write_npz(place / "set.npz", {{"train_images", images({40, 8, 8}, level)},
                                {"train_labels", labels(40, 1)}});
  check_refused(place,
                "set.npz: all 40 training labels are 0: one class cannot "
                "be learnt");
}

TEST_CASE("a validation split of one class is a warning") {
  const Workplace place;
  place.write("set.yaml", kNpzRecipe);
  write_npz(place / "set.npz", {{"train_images", images({40, 8, 8}, level)},
                                {"train_labels", labels(40, 2)},
                                {"val_images", images({10, 8, 8}, level)},
                                {"val_labels", labels(10, 1)}});
  CHECK(contains(notes_of(place.run({"plan", "set.yaml", "--json"})),
                 "all 10 validation images are of class 0"));
}

TEST_CASE("images with the channels first are refused with a hint") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  place.write("set.yaml", kNpzRecipe);
  write_npz(place / "set.npz", {{"train_images", images({40, 1, 8, 8}, level)},
                                {"train_labels", labels(40, 2)}});
  check_refused(place,
                "has the shape [40, 1, 8, 8], which looks like [N, channels, "
                "height, width], expected [N, height, width, channels] (save "
                "images.transpose(0, 2, 3, 1))");
}

TEST_CASE("images that the network cannot take are refused before a trial") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  place.write("set.yaml", kNpzRecipe);
  write_npz(place / "set.npz", {{"train_images", images({40, 1, 16, 4}, level)},
                                {"train_labels", labels(40, 2)}});
  check_refused(place,
                "were read as [N, 1, 16, 4]: height, width, channels "
                "(is that the order of their axes?)");
}

TEST_CASE("images of kinds that are not read are named") {
  const Workplace place;
  add_classes(place);
  add_image(place, "images/cat/a.gif", bytes_of("GIF89a"));
  add_image(place, "images/cat/b.WEBP", bytes_of("RIFF....WEBP"));
  add_image(place, "images/dog/c.bmp", bytes_of("BM"));
  add_image(place, "images/dog/d.bmp", bytes_of("BM"));
  const Outcome plan = place.run({"plan", "pictures.yaml", "--json"});
  CHECK(contains(notes_of(plan), "were skipped: 2 .bmp, 1 .gif, 1 .webp"));
}

TEST_CASE("all images that do not decode are listed at once") {
  if (!kTrains) return skip(kNoTorch);
  const Workplace place;
  add_classes(place);
  add_image(place, "images/cat/0.png", bytes_of("GIF89a, renamed"));
  add_image(place, "images/cat/9.png", {});
  add_image(place, "images/dog/9.jpg", bytes_of("no image"));
  for (const char* command : {"plan", "run"}) {
    const Outcome outcome = place.run({command, "pictures.yaml"});
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "3 images cannot be read:"));
    CHECK(contains(outcome.err, "cat/0.png: is a GIF, not PNG or JPEG"));
    CHECK(contains(outcome.err, "cat/9.png: is empty"));
    CHECK(contains(outcome.err, "dog/9.jpg: is neither PNG nor JPEG"));
  }
  CHECK_FALSE(place.has("pictures.db"));
}

TEST_CASE("a home folder that cannot be written is not needed") {
  Workplace place;
  place.write("home", "a file, where root cannot make a folder either");
  place.environment["HOME"] = (place / "home").string();
  place.environment["XDG_CACHE_HOME"] = "";
  place.environment["TMPDIR"] = place.path().string();
  place.write("tiny.yaml",
              "study: tiny\n"
              "data: { kind: synthetic, size: [8, 8], samples: 100 }\n"
              "budget: { trials: 1 }\n");
  const Outcome outcome = place.run({"plan", "tiny.yaml"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
}

TEST_CASE("show-batch draws training images, augmented, with their labels") {
  const Workplace place;
  place.write("set.yaml",
              "data: { kind: synthetic, channels: 3, size: 8, samples: 200,"
              " augment: [mixup: 0.5] }\n"
              "space: { shift: { int: [0, 4], key: data.augment.shift } }\n");
  const auto draw = [&](const std::string& file,
                        std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"show-batch", "set.yaml", "--output",
                                      file,         "--images", "9"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = place.run(words);
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(contains(outcome.out, file + ": 9 images of batch "));
    return read_image_file(place / file, 3);
  };
  // Three by three, enlarged to 88 x 88 pixels, with two lines below each.
  const Image mixed = draw("a.png");
  CHECK(mixed.width == 6 + 3 * (88 + 6));
  CHECK(mixed.height == 6 + 3 * (88 + 2 + 2 * 9 + 6));
  CHECK(draw("b.png").pixels == mixed.pixels);
  CHECK(draw("c.png", {"--batch", "1"}).pixels != mixed.pixels);
  const Image plain = draw("d.png", {"--set", "data.augment=none"});
  CHECK(plain.height == mixed.height - 3 * 9);
  CHECK(draw("e.png", {"--set", "data.augment=[jitter: 0.5]"}).pixels !=
        plain.pixels);

  place.write("program.yaml",
              "command: awk x\nspace: { x: { int: [0, 1] } }\n");
  const Outcome outcome = place.run({"show-batch", "program.yaml"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "the recipe tunes a program"));
}

TEST_CASE("show-batch draws one letter for each character of a class name") {
  const Workplace place;
  place.write("pictures.yaml", kFolderRecipe);
  const auto draw = [&](const std::string& first, const std::string& second) {
    fs::remove_all(place / "images");
    for (int i = 0; i < 8; ++i) {
      add_image(place, fmt::format("images/{}/{}.png", first, i), gray_png(10));
      add_image(place, fmt::format("images/{}/{}.png", second, i), gray_png(9));
    }
    const Outcome outcome =
        place.run({"show-batch", "pictures.yaml", "--output", "a.png"});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    return read_image_file(place / "a.png", 1).pixels;
  };
  // Accents are left out, also those that are characters of their own.
  const auto plain = draw("aMuller", "b??");
  CHECK(draw("aM\xc3\xbcller", "b\xe7\x8c\xab?") == plain);
  CHECK(draw("aMu\xcc\x88ller", "b\xf0\x9f\x90\x88?") == plain);
  CHECK(draw("aMiller", "b??") != plain);
}
