#include <algorithm>
#include <cstring>
#include <limits>

#include "surrogate/feature_sample.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/surrogate/conv_lstm.h"

using namespace dtune;

namespace {

constexpr ConvLstmShape kFileShape = {.hidden = 8, .head = 16};

ConvLstm moved(uint64_t seed) {
  ConvLstm network(kFileShape, seed);
  Rng rng(seed);
  for (float& p : network.parameters()) {
    p += static_cast<float>(0.05 * rng.normal());
  }
  return network;
}

std::string bytes_of(const ConvLstm& network) {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "w.safetensors";
  network.save(path, {{"note", "for a test"}});
  return read_file(path);
}

ConvLstm parse(const std::string& bytes) {
  return ConvLstm::from_bytes(std::as_bytes(std::span(bytes)), "w.safetensors");
}

// What is wrong with these bytes; they must be refused as data.
std::string problem(const std::string& bytes) {
  try {
    parse(bytes);
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    const std::string text = error.what();
    CHECK(text.rfind("w.safetensors: ", 0) == 0);
    return text;
  }
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Replaces a text by another one of the same length.
std::string replaced(std::string bytes, std::string_view from,
                     std::string_view to) {
  const size_t at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  REQUIRE(from.size() == to.size());
  return bytes.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a network that is saved and read again predicts the same") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "w.safetensors";
  const ConvLstm network = moved(1);
  network.save(path, {{"note", "for a test"}});
  const ConvLstm again = ConvLstm::load(path);
  CHECK(again.shape() == kFileShape);
  CHECK(again.metadata().at("note") == "for a test");
  CHECK(std::ranges::equal(network.parameters(), again.parameters()));
  const FeatureSample sample = feature_sample(1);
  const auto before = network.correct(sample.study);
  const auto after = again.correct(sample.study);
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    REQUIRE(before[i].weight == after[i].weight);
    REQUIRE(before[i].shift == after[i].shift);
    REQUIRE(before[i].scale == after[i].scale);
  }
}

TEST_CASE("bytes in memory are read at any alignment") {
  const ConvLstm network = moved(2);
  const std::string shifted = "x" + bytes_of(network);
  const ConvLstm again = ConvLstm::from_bytes(
      std::as_bytes(std::span(shifted)).subspan(1), "w.safetensors");
  CHECK(std::ranges::equal(network.parameters(), again.parameters()));
}

TEST_CASE("a weights file that is missing is an error that names it") {
  CHECK_THROWS_WITH_AS(ConvLstm::load("/nowhere/w.safetensors"),
                       doctest::Contains("/nowhere/w.safetensors"), Error);
}

TEST_CASE("weights that are cut off anywhere are refused") {
  const std::string bytes = bytes_of(moved(3));
  for (const double share : {0.0, 1e-4, 0.01, 0.5, 0.99999}) {
    const double kept = share * static_cast<double>(bytes.size());
    CHECK(!problem(bytes.substr(0, static_cast<size_t>(kept))).empty());
  }
  CHECK(mentions(problem(bytes + "x"), "not a valid safetensors file"));
}

TEST_CASE("a safetensors file of something else is refused") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "model.safetensors";
  const std::vector<float> values = {1, 2};
  const std::vector<FloatTensor> tensors = {{"w", {2}, values}};
  write_safetensors(path, tensors, {{"recipe", "x"}}, false);
  CHECK(mentions(problem(read_file(path)),
                 "holds no weights of dtune's ConvLSTM"));
}

TEST_CASE("weights of another format, shape or architecture are refused") {
  const std::string bytes = bytes_of(moved(4));
  CHECK(mentions(
      problem(replaced(bytes, "dtune conv_lstm 1", "dtune conv_lstm 9")),
      "its format is 'dtune conv_lstm 9'"));
  CHECK(mentions(problem(replaced(bytes, R"(hidden":"8")", R"(hidden":"x")")),
                 "not a number"));
  CHECK(mentions(problem(replaced(bytes, R"(hidden":"8")", R"(hidden":"7")")),
                 "7 hidden channels"));
  CHECK(mentions(problem(replaced(bytes, R"(hidden":"8")", R"(hidden":"4")")),
                 "tensor 'layer1.convolution' is F32 [3, 3, 3, 20, 32]"));
  CHECK(mentions(problem(replaced(bytes, "layer2.pooled", "layer2.poolex")),
                 "holds no tensor 'layer2.pooled'"));
}

TEST_CASE("weights that are not finite are refused by name") {
  ConvLstm network = moved(5);
  network.parameters().back() = std::numeric_limits<float>::infinity();
  CHECK(
      mentions(problem(bytes_of(network)), "tensor 'head.output_bias' holds"));
  network.parameters()[0] = std::numeric_limits<float>::quiet_NaN();
  CHECK(mentions(problem(bytes_of(network)),
                 "tensor 'layer1.convolution' holds"));
}

TEST_CASE("damaged bytes anywhere in the header never do worse than an error") {
  const std::string bytes = bytes_of(ConvLstm({.hidden = 4, .head = 16}, 6));
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  Rng rng(6);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = bytes;
    damaged[rng.below(header + 8)] = static_cast<char>(rng.below(256));
    try {
      parse(damaged);
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::data);
    }
  }
}
