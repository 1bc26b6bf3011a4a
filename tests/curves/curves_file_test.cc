#include "dtune/curves/curves_file.h"

#include <cmath>

#include "curves/curve_arrays.h"
#include "skip.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

std::vector<RecordedCurves> read(const Members& members) {
  TemporaryDirectory folder;
  write_npz(folder.path() / "c.npz", members);
  return read_curves(folder.path() / "c.npz");
}

}  // namespace

TEST_CASE("curves are read with physical axes and epochs that count from 1") {
  const auto all = read(small_curves());
  REQUIRE(all.size() == 1);
  const RecordedCurves& curves = all[0];
  CHECK(curves.task == "a");
  CHECK(curves.log10_lr[0] == doctest::Approx(-3));
  CHECK(curves.log10_lr[1] == doctest::Approx(-1));
  CHECK(curves.log10_l2[1] == doctest::Approx(-2));
  CHECK(curves.dropout == std::vector<double>{0.25});
  CHECK(curves.epochs == std::vector<int>{1, 2, 3});
  CHECK(curves.values.size() == 12);
  CHECK(curves.values[11] == 0.12f);
  CHECK_FALSE(curves.context.batch_size.has_value());
}

TEST_CASE("values may be halves, floats or 65535ths") {
  Members members = small_curves();
  // 0, 1, 0.5 and the smallest half above 0, then ones.
  std::vector<uint16_t> halves(12, 0x3c00);
  halves[0] = 0;
  halves[2] = 0x3800;
  halves[3] = 1;
  members["val_accuracy_a"] = npy_bytes("<f2", {2, 2, 1, 3}, raw_bytes(halves));
  auto values = read(members)[0].values;
  CHECK(values[0] == 0);
  CHECK(values[1] == 1);
  CHECK(values[2] == 0.5f);
  CHECK(values[3] == std::ldexp(1.0f, -24));

  members["val_accuracy_a"] =
      npy_bytes("<f4", {2, 2, 1, 3}, raw_bytes(std::vector<float>(12, 0.75f)));
  CHECK(read(members)[0].values[5] == 0.75f);

  std::vector<uint16_t> counted(12, 65535);
  counted[1] = 13107;
  members["val_accuracy_a"] =
      npy_bytes("<u2", {2, 2, 1, 3}, raw_bytes(counted));
  values = read(members)[0].values;
  CHECK(values[0] == 1);
  CHECK(values[1] == 0.2f);
}

TEST_CASE("Fortran's order and big-endian numbers are understood") {
  Members members = small_curves();
  members["learning_rate"] =
      npy_bytes(">f4", {2}, {0x3f, 0, 0, 0, 0x3f, 0x80, 0, 0});  // 0.5, 1
  std::vector<double> values(12);
  for (int i = 0; i < 12; ++i) values[size_t(i)] = i / 100.0;
  members["val_accuracy_a"] =
      npy_bytes("<f8", {2, 2, 1, 3}, raw_bytes(values), true);
  const RecordedCurves curves = read(members)[0];
  CHECK(curves.log10_lr[0] == doctest::Approx(std::log10(0.5)));
  // The first axis turns fastest in the file: [0, 0, 0, 1] lies 4 further.
  CHECK(curves.values[1] == 0.04f);
  CHECK(curves.values[6] == 0.01f);
}

TEST_CASE("a task may have many settings, each an entry of its own") {
  Members members = small_curves();
  std::vector<double> values(24, 0.5);
  values[12] = 0.25;
  members["val_accuracy_a"] = doubles({2, 2, 2, 1, 3}, values);
  members["setting_a"] = doubles({2, 4}, {64, 256, 0.9, 3, 128, 512, NAN, 5});
  members["epoch"] = npy_bytes("<i8", {3}, raw_bytes<int64_t>({1, 4, 9}));
  const auto all = read(members);
  REQUIRE(all.size() == 2);
  CHECK(all[0].task == all[1].task);
  CHECK(all[0].values[0] == 0.5f);
  CHECK(all[1].values[0] == 0.25f);
  CHECK(all[0].context.batch_size == 64);
  CHECK(all[1].context.width == 512);
  CHECK_FALSE(all[1].context.momentum.has_value());
  CHECK(all[1].context.depth == 5);
  CHECK(all[1].steps() == 9);
}

TEST_CASE("tasks are taken in the order of their list, numbers or words") {
  Members members = small_curves();
  members["val_accuracy_7"] = members["val_accuracy_a"];
  members["tasks"] = npy_bytes("<i4", {1}, raw_bytes<int32_t>({7}));
  CHECK(read(members).size() == 1);
  CHECK(read(members)[0].task == "7");
  members["tasks"] = npy_bytes("|S2", {2}, {'a', 0, '7', 0});
  CHECK(read(members)[0].task == "a");
  CHECK(read(members)[1].task == "7");
  members["val_accuracy_\u00fc"] = members["val_accuracy_a"];
  members["tasks"] = npy_bytes("<U2", {1}, raw_bytes<uint32_t>({0xfc, 0}));
  CHECK(read(members)[0].task == "\u00fc");
}

TEST_CASE("what was written is read again, and written alike") {
  RecordedCurves curves;
  curves.task = "set one";
  curves.context = {.batch_size = 32, .width = 8, .momentum = {}, .depth = 2};
  curves.log10_lr = {-3, -2, -1};
  curves.log10_l2 = {-5, -4};
  curves.dropout = {0, 0.5};
  curves.epochs = {1, 2, 4};
  for (int i = 0; i < 36; ++i) curves.values.push_back(float(i) / 40);
  RecordedCurves other = curves;
  other.task = "two";
  other.context = {};
  RecordedCurves second = curves;
  second.values[0] = 1;
  other.context.optimizer = "adam";
  other.context.schedule = "cosine";
  other.context.images = 2000;
  other.repeats = {curves.values, second.values};
  TemporaryDirectory folder;
  const auto path = folder.path() / "c.npz";
  write_curves(path, {curves, other, second});
  const auto all = read_curves(path);
  REQUIRE(all.size() == 3);  // by task: "set one" twice, then "two"
  CHECK(all[0].task == "set one");
  CHECK(all[0].values == curves.values);
  CHECK(all[1].values == second.values);
  CHECK(all[1].context.width == 8);
  CHECK_FALSE(all[1].context.momentum.has_value());
  CHECK(all[2].task == "two");
  CHECK_FALSE(all[2].context.depth.has_value());
  CHECK(all[0].epochs == curves.epochs);
  CHECK(all[0].context.optimizer.empty());
  CHECK(all[0].repeats.empty());
  CHECK(all[2].context.optimizer == "adam");
  CHECK(all[2].context.schedule == "cosine");
  CHECK(all[2].context.images == 2000);
  CHECK(all[2].repeats == other.repeats);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(all[0].log10_lr[i] == doctest::Approx(curves.log10_lr[i]));
  }
  const std::string first_bytes = read_file(path);
  write_curves(path, {curves, other, second});
  CHECK(read_file(path) == first_bytes);
}

TEST_CASE("the recorded curves that are shared are read whole") {
  const std::filesystem::path shared =
      std::filesystem::path(DTUNE_SOURCE_DIR) / "../shared/data";
  if (!std::filesystem::exists(shared / "lcbench_curves.npz")) {
    return skip("lcbench_curves.npz is not beside this checkout");
  }
  const auto curves = read_curves(shared / "lcbench_curves.npz");
  REQUIRE(curves.size() == 17);
  CHECK(curves[0].values.size() == size_t{25} * 21 * 11 * 51);
  for (const RecordedCurves& one : curves) {
    CHECK(one.best() > one.median_final());
  }
}
