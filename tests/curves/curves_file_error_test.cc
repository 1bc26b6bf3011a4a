#include <cmath>
#include <limits>

#include "curves/curve_arrays.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/curves/curves_file.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

std::string error_with(const Members& members) {
  TemporaryDirectory folder;
  write_npz(folder.path() / "c.npz", members);
  return error_of([&] { read_curves(folder.path() / "c.npz"); }, folder.path());
}

// The error where one member of a sound file is another one.
std::string error_with(const std::string& name, const Bytes& bytes) {
  Members members = small_curves();
  members[name] = bytes;
  return error_with(members);
}

std::string error_with_value(double value) {
  std::vector<double> values(12, 0.5);
  values[7] = value;
  return error_with("val_accuracy_a", doubles({2, 2, 1, 3}, values));
}

}  // namespace

TEST_CASE("a missing member is named") {
  Members members = small_curves();
  members.erase("dropout");
  CHECK(error_with(members) ==
        "data: c.npz: has no member dropout (it holds: l2.npy, "
        "learning_rate.npy, val_accuracy_a.npy)");
  members = small_curves();
  members.erase("val_accuracy_a");
  CHECK(error_with(members) ==
        "data: c.npz: holds no curves (no val_accuracy_<task>)");
  members["tasks"] = npy_bytes("<i4", {1}, raw_bytes<int32_t>({7}));
  CHECK(error_with(members).starts_with(
      "data: c.npz: has no member val_accuracy_7 "));
}

TEST_CASE("axes must ascend within their range") {
  CHECK(error_with("learning_rate", doubles({2}, {0.1, 0.1})) ==
        "data: c.npz: learning_rate: does not ascend: 0.1 follows 0.1");
  CHECK(error_with("learning_rate", doubles({2}, {0, 0.1})) ==
        "data: c.npz: learning_rate: holds 0, expected positive numbers");
  CHECK(error_with("l2", doubles({2}, {NAN, 0.1})) ==
        "data: c.npz: l2: holds nan, expected positive numbers");
  CHECK(
      error_with(
          "l2", doubles({2}, {0.1, std::numeric_limits<double>::infinity()})) ==
      "data: c.npz: l2: holds inf, expected positive numbers");
  CHECK(error_with("dropout", doubles({1}, {1.5})) ==
        "data: c.npz: dropout: holds 1.5, expected shares between 0 and 1");
  CHECK(error_with("dropout", doubles({0}, {})) ==
        "data: c.npz: dropout: has the shape [0], expected an axis of at least "
        "one value");
  CHECK(error_with("dropout", doubles({1, 1}, {0.5})) ==
        "data: c.npz: dropout: has the shape [1, 1], expected an axis of at "
        "least one value");
  CHECK(error_with("epoch", doubles({3}, {1, 2.5, 3})) ==
        "data: c.npz: epoch: holds 2.5, expected whole epochs");
  CHECK(error_with("epoch", doubles({3}, {0, 1, 2})) ==
        "data: c.npz: epoch: holds 0, expected epochs that count from 1");
}

TEST_CASE("arrays must have the shape that the axes say") {
  CHECK(error_with("val_accuracy_a",
                   doubles({2, 3, 1, 2}, std::vector<double>(12))) ==
        "data: c.npz: val_accuracy_a: has the shape [2, 3, 1, 2], expected [2, "
        "2, 1, 2], with the number of settings before it or without");
  CHECK(error_with("val_accuracy_a", doubles({12}, std::vector<double>(12)))
            .starts_with("data: c.npz: val_accuracy_a: has the shape [12]"));
  CHECK(error_with("val_accuracy_a", doubles({0, 2, 2, 1, 3}, {}))
            .starts_with("data: c.npz: val_accuracy_a: has the shape [0, 2"));
  CHECK(error_with("epoch", doubles({2}, {1, 2}))
            .starts_with("data: c.npz: val_accuracy_a: has the shape [2, 2, 1, "
                         "3], expected [2, 2, 1, 2]"));
  CHECK(error_with("setting_a", doubles({3}, {1, 2, 3})) ==
        "data: c.npz: setting_a: has the shape [3], expected [1, 4]");
  CHECK(error_with("setting_a", doubles({2, 4}, std::vector<double>(8))) ==
        "data: c.npz: setting_a: has the shape [2, 4], expected [1, 4]");
  CHECK(error_with("setting_a", doubles({4}, {-1, 2, 3, 4})) ==
        "data: c.npz: setting_a: holds -1, expected sizes (NaN where one is "
        "not known)");
}

TEST_CASE("repeats must each have the shape of their mean") {
  CHECK(
      error_with("repeats_a", doubles({2, 2, 1, 3}, std::vector<double>(12))) ==
      "data: c.npz: repeats_a: has the shape [2, 2, 1, 3], expected a number "
      "of repeats before [2, 2, 1, 3]");
  CHECK(error_with("training_a", npy_bytes("|S1", {1, 2}, {'a', 'b'})) ==
        "data: c.npz: training_a: has the shape [1, 2], expected [1, 3]");
  CHECK(error_with("training_a", npy_bytes("|S1", {3}, {'a', 'b', 'c'})) ==
        "data: c.npz: training_a: holds 'c', expected a number of training "
        "images");
}

TEST_CASE("values that are not accuracies are refused with their place") {
  CHECK(error_with_value(NAN) ==
        "data: c.npz: val_accuracy_a: holds nan (value 7 of 12), outside of 0 "
        "to 1");
  CHECK(error_with_value(std::numeric_limits<double>::infinity()) ==
        "data: c.npz: val_accuracy_a: holds inf (value 7 of 12), outside of 0 "
        "to 1");
  CHECK(error_with_value(-0.25).find("holds -0.25 (value 7") !=
        std::string::npos);
  CHECK(error_with_value(93.5).find("holds 93.5 (value 7") !=
        std::string::npos);
}

TEST_CASE("types that curves do not have are refused") {
  CHECK(
      error_with("val_accuracy_a", npy_bytes("|u1", {2, 2, 1, 3}, Bytes(12))) ==
      "data: c.npz: val_accuracy_a: holds neither float16, float32, float64 "
      "nor uint16 (65535ths)");
  CHECK(
      error_with("val_accuracy_a", npy_bytes("<c8", {2, 2, 1, 3}, Bytes(96))) ==
      "data: c.npz: val_accuracy_a: holds values of type '<c8'; numbers and "
      "words are read (convert them with .astype)");
  CHECK(error_with("l2", npy_bytes("|S2", {2}, {'a', 'b', 'c', 'd'})) ==
        "data: c.npz: l2: holds values of type '|S2'; expected numbers");
  CHECK(error_with("tasks", doubles({1}, {7})) ==
        "data: c.npz: tasks: holds values of type '<f8'; expected integers or "
        "words");
}

TEST_CASE("task lists must name each task once") {
  CHECK(error_with("tasks", npy_bytes("|S1", {2}, {'a', 'a'})) ==
        "data: c.npz: tasks: names the task 'a' twice");
  CHECK(error_with("tasks", npy_bytes("|S1", {1}, {0})) ==
        "data: c.npz: tasks: names the task '' (an empty name)");
  CHECK(error_with("tasks", npy_bytes("<U1", {1}, {0, 0, 0, 0x7f})) ==
        "data: c.npz: tasks: holds a character that Unicode does not have");
  CHECK(error_with("tasks", npy_bytes("|S1", {0}, {})) ==
        "data: c.npz: tasks: has the shape [0], expected a list of tasks");
}

TEST_CASE("a damaged file says which member is damaged") {
  CHECK(
      error_with("val_accuracy_a", npy_bytes("<f8", {2, 2, 1, 3}, Bytes(90))) ==
      "data: c.npz: val_accuracy_a: claims 2x2x1x3 values of 8 bytes, but "
      "holds 90 bytes (damaged; fetch the file again)");
  TemporaryDirectory folder;
  const auto path = folder.path() / "c.npz";
  const auto error = [&] {
    return error_of([&] { read_curves(path); }, folder.path());
  };
  CHECK(error().starts_with("data: c.npz: cannot be read"));
  write_npz(path, small_curves(), Packing::stored);
  Bytes bytes = read_bytes(path);
  const std::string text(bytes.begin(), bytes.end());
  bytes[text.find("NUMPY", text.find("val_accuracy_a.npy")) + 140] ^= 1;
  write_bytes(path, bytes);
  CHECK(error() ==
        "data: c.npz: val_accuracy_a.npy: is damaged: CRC error "
        "(fetch the file again)");
  bytes.resize(bytes.size() / 2);
  write_bytes(path, bytes);
  CHECK(error().starts_with("data: c.npz: cannot be read as a zip archive"));
}
