#include "dtune/tuner/sequence.h"

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<std::vector<double>> take(const Sequence& sequence,
                                      size_t dimensions, uint64_t count) {
  std::vector<std::vector<double>> points;
  for (uint64_t i = 0; i < count; ++i) {
    points.emplace_back(dimensions);
    sequence.point(i, points.back());
  }
  return points;
}

// The mean over the points of f = prod (1 + (u_d - 1/2)), whose integral is 1.
double mean_of_product(const std::vector<std::vector<double>>& points) {
  double sum = 0;
  for (const auto& point : points) {
    double product = 1;
    for (const double u : point) product *= 0.5 + u;
    sum += product;
  }
  return sum / double(points.size());
}

}  // namespace

TEST_CASE("each axis of a Sobol net has one point in every slice") {
  constexpr uint64_t kPoints = 256;
  const auto sequence = make_sobol_sequence(kSobolDimensions, 5);
  const auto points = take(*sequence, kSobolDimensions, kPoints);
  for (size_t d = 0; d < kSobolDimensions; ++d) {
    std::set<int> slices;
    for (const auto& point : points) slices.insert(int(point[d] * kPoints));
    CHECK(slices.size() == kPoints);
  }
}

TEST_CASE("the first two Sobol axes form a (0, m, 2)-net") {
  const auto points = take(*make_sobol_sequence(2, 9), 2, 64);
  for (int bits = 0; bits <= 6; ++bits) {
    std::set<std::pair<int, int>> boxes;
    for (const auto& point : points) {
      boxes.emplace(int(point[0] * (1 << bits)),
                    int(point[1] * (1 << (6 - bits))));
    }
    CHECK(boxes.size() == 64);
  }
}

TEST_CASE("neighbouring Sobol axes fill their plane") {
  // Bad direction numbers crowd the points of a plane into few boxes.
  const auto points =
      take(*make_sobol_sequence(kSobolDimensions, 1), kSobolDimensions, 1024);
  for (size_t d = 1; d < kSobolDimensions; ++d) {
    std::set<std::pair<int, int>> boxes;
    for (const auto& point : points) {
      boxes.emplace(int(point[d - 1] * 16), int(point[d] * 16));
    }
    CHECK(boxes.size() >= 128);
  }
}

TEST_CASE("low-discrepancy sequences integrate better than random points") {
  const auto error = [](const std::function<std::unique_ptr<Sequence>(
                            size_t, uint64_t)>& make) {
    double squares = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const double mean = mean_of_product(take(*make(6, seed), 6, 512));
      squares += (mean - 1) * (mean - 1);
    }
    return std::sqrt(squares / 20);
  };
  const double random =
      error([](size_t, uint64_t seed) { return make_random_sequence(seed); });
  CHECK(error(make_sobol_sequence) < random / 4);
  CHECK(error(make_halton_sequence) < random / 4);
}

TEST_CASE("sequences differ by seed and repeat for the same") {
  const auto make = [](int kind, uint64_t seed) {
    return kind == 0   ? make_random_sequence(seed)
           : kind == 1 ? make_sobol_sequence(3, seed)
                       : make_halton_sequence(3, seed);
  };
  for (const int kind : {0, 1, 2}) {
    const auto first = take(*make(kind, 1), 3, 16);
    CHECK(first == take(*make(kind, 1), 3, 16));
    CHECK(first != take(*make(kind, 2), 3, 16));
  }
}

TEST_CASE("coordinates stay in the unit cube far out and in many dimensions") {
  constexpr size_t kDimensions = 60;
  for (const auto& sequence : {make_sobol_sequence(kDimensions, 3).release(),
                               make_halton_sequence(kDimensions, 3).release(),
                               make_random_sequence(3).release()}) {
    const std::unique_ptr<Sequence> owner(sequence);
    std::vector<double> unit(kDimensions);
    for (const uint64_t index :
         {0UL, 1UL, 4'294'967'295UL, 123'456'789'012UL}) {
      owner->point(index, unit);
      for (const double u : unit) {
        CHECK(u >= 0);
        CHECK(u < 1);
      }
      CHECK(std::set<double>(unit.begin(), unit.end()).size() > 50);
    }
  }
}

TEST_CASE("Halton points fill the slices of their base evenly") {
  const auto points = take(*make_halton_sequence(3, 7), 3, 900);
  constexpr int kBases[] = {2, 3, 5};
  for (size_t d = 0; d < 3; ++d) {
    std::vector<int> count(size_t(kBases[d]));
    for (const auto& point : points) ++count[size_t(point[d] * kBases[d])];
    for (const int n : count) CHECK(n == 900 / kBases[d]);
  }
}
