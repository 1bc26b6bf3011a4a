#include "dtune/curves/misleading.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

namespace {

// Six rates, three values of L2, three dropouts, two epochs; no two values are
// alike.
RecordedCurves counted() {
  RecordedCurves curves;
  curves.task = "counted";
  curves.log10_lr = {-4, -3.5, -3, -2.5, -2, -1};
  curves.log10_l2 = {-6, -4, -2};
  curves.dropout = {0, 0.2, 0.4};
  curves.epochs = {1, 2};
  for (int i = 0; i < 108; ++i) curves.values.push_back(float(i) / 128);
  curves.repeats = {curves.values, curves.values};
  for (float& value : curves.repeats[1]) value += 0.0625F;
  return curves;
}

float at(const std::vector<float>& table, size_t lr, size_t l2, size_t dropout,
         size_t epoch) {
  return table[((lr * 3 + l2) * 3 + dropout) * 2 + epoch];
}

}  // namespace

TEST_CASE("misleading curves are the same ones at other points") {
  const RecordedCurves curves = counted();
  for (const std::string& name : misleading_names()) {
    CAPTURE(name);
    const RecordedCurves other = mislead(curves, misleading_of(name));
    CHECK(other.values != curves.values);
    // Steps of a curve stay together, and so do the trainings of a point.
    for (size_t i = 0; i < other.values.size(); i += 2) {
      CHECK(other.values[i + 1] - other.values[i] == 1.0F / 128);
    }
    CHECK(other.repeats[0] == other.values);
    for (size_t i = 0; i < other.values.size(); ++i) {
      CHECK(other.repeats[1][i] == other.values[i] + 0.0625F);
    }
    std::vector<float> sorted = other.values;
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == curves.values);
    CHECK(mislead(curves, misleading_of(name)).values == other.values);
  }
  CHECK(mislead(curves, Misleading::none).values == curves.values);
}

TEST_CASE("what a point is worth goes with it, whatever its neighbours are") {
  RecordedCurves curves = counted();
  curves.weigh();
  for (const std::string& name : misleading_names()) {
    CAPTURE(name);
    const RecordedCurves other = mislead(counted(), misleading_of(name));
    REQUIRE(other.worth.size() == 2);
    for (size_t i = 0; i < other.values.size(); ++i) {
      const auto was = std::find(curves.values.begin(), curves.values.end(),
                                 other.values[i]) -
                       curves.values.begin();
      CHECK(other.worth[0][i] == curves.worth[0][size_t(was)]);
    }
  }
}

TEST_CASE("reversed turns the rates round, shifted moves rates and L2") {
  const RecordedCurves curves = counted();
  const RecordedCurves reversed = mislead(curves, Misleading::reversed);
  const RecordedCurves shifted = mislead(curves, Misleading::shifted);
  for (size_t lr = 0; lr < 6; ++lr) {
    for (size_t l2 = 0; l2 < 3; ++l2) {
      CHECK(at(reversed.values, lr, l2, 1, 0) ==
            at(curves.values, 5 - lr, l2, 1, 0));
      CHECK(at(shifted.values, lr, l2, 1, 0) ==
            at(curves.values, (lr + 2) % 6, (l2 + 1) % 3, 1, 0));
    }
  }
}
