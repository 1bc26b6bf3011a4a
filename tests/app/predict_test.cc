// A trained model put to use: dtune predict, dtune export --pytorch.
#include <cstdlib>

#include "app/program.h"
#include "data/fixtures.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// Noise that is a little brighter in class b.
testing::Bytes noisy_png(Rng& rng, int brightness) {
  Image image{.height = 11, .width = 13, .channels = 3, .pixels = {}};
  for (int i = 0; i < 11 * 13 * 3; ++i) {
    image.pixels.push_back(
        static_cast<uint8_t>(brightness + static_cast<int>(rng.below(160))));
  }
  return testing::png_bytes(image);
}

// A folder data set, and a study of it that has one model.
struct Photos : Workplace {
  Photos() {
    Rng rng(7);
    for (const char* split : {"train", "test"}) {
      for (const char* name : {"a", "b"}) {
        const fs::path folder = *this / "photos" / split / name;
        fs::create_directories(folder);
        for (int i = 0; i < 30; ++i) {
          testing::write_bytes(folder / fmt::format("{}.png", i),
                               noisy_png(rng, *name == 'a' ? 0 : 8));
        }
      }
    }
    write("p.yaml",
          "study: photos\n"
          "deterministic: true\n"
          "data: { kind: folder, path: photos, size: [10, 12] }\n"
          "model: { layers: [ { conv: 4 }, batch_norm, relu, { max_pool: 2 },"
          " { residual: [ { conv: { channels: 4, name: in-side } } ] } ] }\n"
          "train: { epochs: 2, batch_size: 8 }\n"
          "sampler: random\nscheduler: fifo\n"
          "final: { threshold: balanced }\n"
          "budget: { trials: 1 }\nslots: 1\n");
    const Outcome outcome = run({"run", "p.yaml", "--quiet"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  }

  nlohmann::json json(const std::vector<std::string>& words,
                      int code = 0) const {
    const Outcome outcome = run(words);
    REQUIRE_MESSAGE(outcome.code == code, outcome.err);
    return nlohmann::json::parse(outcome.out);
  }
};

constexpr const char* kModel = "p.files/model.safetensors";

// Six validation images choose a threshold by chance; this one is 0.45 wherever
// the test runs. The file keeps its length.
void set_threshold(const Photos& place) {
  std::string bytes = place.read(kModel);
  const std::string key = "\"threshold\":\"";
  const size_t begin = bytes.find(key);
  REQUIRE(begin != std::string::npos);
  const size_t first = begin + key.size();
  const size_t length = bytes.find('"', first) - first;
  std::string text = "0.45";
  text.resize(length, '0');
  bytes.replace(first, length, text);
  place.write(kModel, bytes);
}

bool python_runs() { return std::system("python3 -V >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE(
    "predict needs the model alone, agrees with eval, names what is bad") {
  const Photos place;
  set_threshold(place);
  const auto judged = place.json({"eval", kModel, "--json"});
  // Neither the recipe beside the model nor the training images are needed.
  fs::remove(place / "p.files/model.yaml");
  fs::rename(place / "photos/test", place / "shots");
  fs::remove_all(place / "photos");
  const auto shots = place.json({"predict", kModel, "shots", "--json"});
  CHECK(shots["classes"] == nlohmann::json({"a", "b"}));
  REQUIRE(shots["predictions"].size() == 60);
  const double threshold = judged["test_threshold"];
  CHECK(threshold < 0.5);
  int correct = 0;
  for (const auto& one : shots["predictions"]) {
    const std::string image = one["image"];
    const std::string found = one["class"];
    correct += image.find("/" + found + "/") != std::string::npos ? 1 : 0;
    const double a = one["probabilities"]["a"];
    const double b = one["probabilities"]["b"];
    CHECK(a + b == doctest::Approx(1));
    CHECK(one["probability"] == (b >= threshold ? b : a));
    CHECK(found == (b >= threshold ? "b" : "a"));
  }
  CHECK(judged["test_accuracy"] == correct / 60.0);

  // The images that eval saw, as an array: the same answers.
  const std::string first = shots["predictions"][0]["image"];
  const std::string bytes = place.read(first);
  const Image image = resize_image(
      decode_image(
          {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 3,
          first),
      10, 12);
  testing::write_npz(
      place / "one.npz",
      {{"images", testing::npy_bytes("|u1", {1, 10, 12, 3}, image.pixels)}});
  const auto array = place.json({"predict", kModel, "one.npz", "--json"});
  CHECK(array["predictions"][0]["image"] == "one.npz:images[0]");
  CHECK(array["predictions"][0]["probabilities"]["a"].get<double>() ==
        doctest::Approx(
            shots["predictions"][0]["probabilities"]["a"].get<double>())
            .epsilon(1e-5));

  // What cannot be read is named; the rest is classified.
  place.write("bad.png", "nonsense");
  const auto mixed =
      place.json({"predict", kModel, "bad.png", first, "--json"}, 2);
  CHECK(mixed["predictions"][0].contains("error"));
  CHECK(mixed["predictions"][1]["class"] == shots["predictions"][0]["class"]);
  const Outcome table = place.run({"predict", "p.db", first, "bad.png"});
  CHECK(table.code == 2);
  CHECK(contains(table.out, "probability"));
  CHECK(contains(table.out, first));
  CHECK(contains(table.err, "bad.png: is neither PNG nor JPEG"));
  CHECK(place.run({"predict", kModel}).code == 2);
  CHECK(place.run({"predict", "none.safetensors", first}).code == 2);
  CHECK(contains(place.run({"predict", kModel, "none.png"}).err,
                 "none.png: there is no such file"));
  CHECK(place.run({"predict", "one.npz", first}).code == 2);

  // The same model for Python.
  const Outcome exported =
      place.run({"export", kModel, "--pytorch", "model.py"});
  CHECK_MESSAGE(exported.code == 0, exported.err);
  const std::string module = place.read("model.py");
  CHECK(contains(module, "(\"conv1\", nn.Conv2d(3, 4, 3, padding=1))"));
  CHECK(contains(module, "RENAMED = {\"layer_1\":\"in-side\"}"));
  CHECK(contains(module, "CLASSES = [\"a\",\"b\"]"));
  CHECK(contains(module, fmt::format("THRESHOLD = {} ", threshold)));
  if (python_runs()) {
    const std::string command =
        fmt::format("python3 -m py_compile {}", (place / "model.py").string());
    CHECK(std::system(command.c_str()) == 0);
  }
  CHECK(place.run({"export", "p.yaml", "--pytorch", "same.py"}).code == 0);
  CHECK(place.read("same.py") == module);
  CHECK(place.run({"export", "p.yaml", "--pytorch", "m.py", "--csv"}).code ==
        2);
}

TEST_CASE("a study that was moved finds its model") {
  const Photos place;
  fs::create_directory(place / "alone");
  fs::copy_file(place / "p.db", place / "alone/p.db");
  const std::string photo = "photos/test/a/0.png";
  const Outcome alone = place.run({"predict", "alone/p.db", photo});
  CHECK_MESSAGE(alone.code == 0, alone.err);

  // With its files; nothing is left where it was.
  fs::create_directory(place / "both");
  fs::rename(place / "p.db", place / "both/p.db");
  fs::rename(place / "p.files", place / "both/p.files");
  CHECK(place.run({"predict", "both/p.db", photo}).code == 0);
  CHECK(contains(place.run({"status", "both/p.db"}).out,
                 "model    both/p.files/model.safetensors"));

  const Outcome again =
      place.run({"run", "p.yaml", "--db", "both/p.db", "--quiet"});
  CHECK_MESSAGE(again.code == 0, again.err);
  CHECK_MESSAGE(contains(again.out, "both/p.files/model.safetensors"),
                again.out);

  // What lies at the old place is no model.
  fs::create_directory(place / "p.files");
  place.write("p.files/model.safetensors", "torn");
  const Outcome missing = place.run({"predict", "alone/p.db", photo});
  CHECK(missing.code == 2);
  CHECK(contains(missing.err,
                 "alone/p.db: its model is missing: it is neither "
                 "alone/p.files/model.safetensors nor "));
  CHECK(contains(missing.err, "(keep p.files beside the database)"));

  // Another study's model is there by now.
  fs::remove_all(place / "p.files");
  place.write("p.yaml", place.read("p.yaml") + "seed: 3\n");
  CHECK(place.run({"run", "p.yaml", "--quiet"}).code == 0);
  CHECK(place.run({"predict", "alone/p.db", photo}).code == 2);
}
