#include "dtune/surrogate/partial_study.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

using namespace dtune;

namespace {

StudyCube tiny_cube() {
  return {prior_axes(tiny_curves(1)), tiny_cubes(1).front().values};
}

}  // namespace

TEST_CASE("curves of a partial study are observed from their first look on") {
  const StudyCube cube = tiny_cube();
  int at_frames = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    const auto study = partial_study(cube, {-2, -3, 0}, 60, 0, rng);
    REQUIRE(study.size() == 60);
    const double first = study.front().input.time;
    std::map<std::vector<double>, double> last;
    for (const ProcessObservation& o : study) {
      double& before = last[o.input.unit];
      CHECK((before > 0 ? o.input.time > before : o.input.time == first));
      CHECK(o.input.time <= 1);
      before = o.input.time;
      CHECK(o.value == cube.value(o.input.cube, o.input.time));
      for (const double u : o.input.unit) CHECK((u >= 0 && u <= 1));
    }
    at_frames += first == cube.axes().time.front() ? 1 : 0;
    // Else the first whole step of a training of 4 to 51.
    const double steps = std::round(1 / first);
    CHECK(first == doctest::Approx(1 / steps));
    CHECK((steps >= 4 && steps <= 51));
  }
  CHECK(at_frames > 4);
  CHECK(at_frames < 16);
}

TEST_CASE("the reports of a training share a part of their noise") {
  const StudyCube cube = tiny_cube();
  double within = 0;  // squares of the difference to the report before
  double of_all = 0;  // squares of the noise
  int count = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    std::map<std::vector<double>, double> last;
    for (const ProcessObservation& o :
         partial_study(cube, {-2, -3, 0}, 40, 0.01, rng)) {
      const double off = o.value - cube.value(o.input.cube, o.input.time);
      const auto found = last.find(o.input.unit);
      if (found != last.end()) {
        within += (off - found->second) * (off - found->second);
        of_all += off * off;
        ++count;
      }
      last[o.input.unit] = off;
    }
  }
  REQUIRE(count > 1000);
  CHECK(std::sqrt(of_all / count) == doctest::Approx(0.01).epsilon(0.1));
  // Twice the variance if nothing were shared; on average half of it is.
  CHECK(within / of_all > 0.7);
  CHECK(within / of_all < 1.3);
}

TEST_CASE("each training has a number of its own") {
  const StudyCube cube = tiny_cube();
  Rng rng(3);
  std::map<std::vector<double>, int64_t> trainings;
  std::set<int64_t> numbers;
  for (const ProcessObservation& o :
       partial_study(cube, {-2, -3, 0}, 60, 0.01, rng)) {
    CHECK(o.input.training > 0);
    const auto [found, fresh] =
        trainings.emplace(o.input.unit, o.input.training);
    CHECK(found->second == o.input.training);
    numbers.insert(o.input.training);
  }
  CHECK(numbers.size() == trainings.size());
  CHECK(numbers.size() > 1);
}

TEST_CASE("the same seed makes the same study") {
  const StudyCube cube = tiny_cube();
  Rng a(5);
  Rng b(5);
  const auto one = partial_study(cube, {-2, -3, 0}, 30, 0.01, a);
  const auto two = partial_study(cube, {-2, -3, 0}, 30, 0.01, b);
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].value == two[i].value);
    CHECK(one[i].input.unit == two[i].input.unit);
  }
}

TEST_CASE("a reversed axis turns the cube round") {
  const StudyCube cube = tiny_cube();
  const StudyCube turned = cube.bent(0, 1, true);
  CHECK(turned.value({-4, -3, 0.5}, 1) ==
        doctest::Approx(cube.value({-1, -3, 0.5}, 1)));
  CHECK(turned.value({-1, -5, 0}, 0.25) ==
        doctest::Approx(cube.value({-4, -5, 0}, 0.25)).epsilon(1e-3));
  const StudyCube bent = cube.bent(2, 2.0, false);
  CHECK(bent.value({-2, -3, 1}, 1) ==
        doctest::Approx(cube.value({-2, -3, 1}, 1)));
  CHECK(bent.value({-2, -3, 0.5}, 1) ==
        doctest::Approx(cube.value({-2, -3, 0.25}, 1)));
  CHECK(cube.scaled(0.1, 0.5).value({-2, -3, 0}, 1) ==
        doctest::Approx(0.1 + 0.5 * cube.value({-2, -3, 0}, 1)));
}

TEST_CASE("what slots would be training is one step a point") {
  const StudyCube cube = tiny_cube();
  Rng rng(2);
  const auto study = partial_study(cube, {-2, -3, 0}, 40, 0, rng);
  const auto pending = pending_after(study, 20, 4);
  CHECK(pending.size() <= 4);
  CHECK(!pending.empty());
  CHECK(pending.front().unit == study[20].input.unit);
  CHECK(pending_after(study, 40, 4).empty());
}
