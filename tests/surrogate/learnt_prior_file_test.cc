#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/safetensors.h"
#include "dtune/surrogate/correction.h"
#include "dtune/surrogate/shipped.h"

using namespace dtune;

namespace {

std::string problem(const std::filesystem::path& path) {
  try {
    LearntPrior::load(path);
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::data);
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a prior is read as it was written, up to the halves of its basis") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "prior.safetensors";
  const LearntPrior prior = tiny_prior(3);
  prior.save(path, "a test");
  const LearntPrior again = LearntPrior::load(path);
  CHECK(again.tasks() == prior.tasks());
  CHECK(again.axes().time == prior.axes().time);
  const std::string left_out[] = {"task1"};
  const CubePrior a = prior.condition({64, 128, 0.9, 2}, left_out);
  const CubePrior b = again.condition({64, 128, 0.9, 2}, left_out);
  std::vector<double> phi(a.components());
  std::vector<double> other(b.components());
  for (double lr = -4; lr < -1; lr += 0.4) {
    for (const double time : prior.axes().time) {
      const CubePoint point = {lr, -2.5, 0.3};
      CHECK(b.evaluate(point, time, other) ==
            doctest::Approx(a.evaluate(point, time, phi)).epsilon(2e-3));
      // Components may turn; what counts is the covariance.
      double variance = 0;
      double variance_again = 0;
      for (size_t k = 0; k < phi.size(); ++k) {
        variance += phi[k] * phi[k];
        variance_again += other[k] * other[k];
      }
      CHECK(std::abs(variance - variance_again) < 1e-3);
    }
  }
}

TEST_CASE("a prior knows how far trainings are from their mean") {
  std::vector<RecordedCube> cubes = tiny_cubes(3);
  CHECK(tiny_prior(3).condition({}).training_deviation() == 0);
  for (RecordedCube& cube : cubes) {
    cube.training_deviation = cube.task == "task0"   ? 0.25
                              : cube.task == "task1" ? 0.125
                                                     : 0;
  }
  cubes[0].training_deviation = 0.5;
  const TemporaryDirectory folder;
  const auto path = folder.path() / "prior.safetensors";
  LearntPrior::learn(prior_axes(tiny_curves(3)), cubes, 5).save(path, "a test");
  const LearntPrior prior = LearntPrior::load(path);
  const std::string known[] = {"task0", "task1"};
  CHECK(prior.condition({}).training_deviation() == 0.25);
  CHECK(prior.condition({}, {known, 1}).training_deviation() == 0.125);
  CHECK(prior.condition({}, known).training_deviation() == 0);
}

TEST_CASE("a damaged prior is refused wherever the damage is") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "prior.safetensors";
  tiny_prior(2).save(path, "a test");
  const std::string whole = read_file(path);
  for (size_t length = 0; length < whole.size(); length += 97) {
    write_file_atomic(path, whole.substr(0, length), false);
    CHECK(has(problem(path), path.string()));
  }
  // Behind the header every byte counts for the checksum.
  for (size_t at = 1500; at < whole.size(); at += 111) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    write_file_atomic(path, bytes, false);
    CHECK(has(problem(path), path.string()));
  }
}

TEST_CASE("a file of another format is not a prior") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "other.safetensors";
  CHECK(has(problem(path), path.string()));
  write_safetensors(path, std::span<const FloatTensor>(), {{"format", "pt"}},
                    false);
  CHECK(has(problem(path), "is not a learnt prior of dtune"));
  write_file_atomic(path, "not at all", false);
  CHECK(has(problem(path), path.string()));
}

TEST_CASE("a prior of other times than the network's frames is refused") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "prior.safetensors";
  CubeAxes axes = prior_axes(tiny_curves(2));
  axes.time = {0.25, 1};
  std::vector<RecordedCube> cubes;
  for (const RecordedCurves& curves : tiny_curves(2)) {
    cubes.push_back(recorded_cube(curves, axes));
  }
  LearntPrior::learn(axes, cubes, 3).save(path, "a test");
  CHECK(has(problem(path), "its times are not 8 shares"));
}

TEST_CASE("the best point of a prior is not an isolated corner") {
  CubeAxes axes;
  axes.log10_lr = {-4, -3, -2, -1, 0};
  axes.log10_l2 = {-6, -4, -2};
  axes.dropout = {0, 0.5};
  axes.time = {1};
  std::vector<float> mean;
  for (const float by_rate : {-1.0F, -1.0F, -0.3F, -0.1F, -0.3F}) {
    mean.insert(mean.end(), 6, by_rate);
  }
  mean.front() = 0;
  const CubePrior prior(axes, 1, mean, std::vector<float>(mean.size(), 0.0F));
  CHECK(prior.best_point().log10_lr == -1);
}

TEST_CASE(
    "the context chooses among the samples of one task, not among tasks") {
  const auto mean = [](const LearntPrior& prior, double batch_size) {
    const CubePrior one = prior.condition({batch_size, 128, 0.9, 2});
    std::vector<double> phi(one.components());
    return one.evaluate({-2, -3, 0}, 1, phi);
  };
  std::vector<RecordedCube> cubes = tiny_cubes(3);  // two contexts a task
  const CubeAxes axes = prior_axes(tiny_curves(3));
  const LearntPrior two = LearntPrior::learn(axes, cubes, 5);
  CHECK(mean(two, 32) != doctest::Approx(mean(two, 256)));
  for (size_t i = 0; i < cubes.size(); ++i) {
    cubes[i].task = "task" + std::to_string(i);
  }
  const LearntPrior one = LearntPrior::learn(axes, cubes, 5);
  CHECK(mean(one, 32) == doctest::Approx(mean(one, 256)));
}

TEST_CASE("an opening has a good point for each kind of recorded study") {
  // Two studies of three are best at a high rate, one at a low one; a rate
  // between them is second best for all.
  CubeAxes axes;
  axes.log10_lr = {-4, -3, -2, -1};
  axes.log10_l2 = {-6, -4};
  axes.dropout = {0, 0.5};
  axes.time = {1};
  std::vector<RecordedCube> cubes;
  for (const bool high : {true, true, false}) {
    RecordedCube cube{
        "task" + std::to_string(cubes.size()), {64, 64, 0.9, 2}, {}};
    for (const float by_rate : high ? std::array{0.1F, 0.3F, 0.6F, 0.9F}
                                    : std::array{0.9F, 0.3F, 0.6F, 0.1F}) {
      for (const float off : {0.0F, -0.01F, -0.02F, -0.03F}) {
        cube.values.push_back(by_rate + off);
      }
    }
    cubes.push_back(std::move(cube));
  }
  const LearntPrior prior = LearntPrior::learn(axes, cubes, 3);
  const auto rates = [&](size_t count, std::vector<std::string> leave_out) {
    std::vector<double> found;
    for (const CubePoint& p : prior.opening({}, leave_out, count)) {
      found.push_back(p.log10_lr);
    }
    return found;
  };
  CHECK(rates(1, {}) == std::vector<double>{-1});
  CHECK(rates(2, {}) == std::vector<double>{-1, -4});
  // Of one kind alone a second point lowers nothing.
  CHECK(rates(3, {"task2"}).front() == -1);
  CHECK(rates(1, {"task0", "task1"}) == std::vector<double>{-4});
  CHECK(prior.opening({}, {}, 100).size() <= axes.voxels());
}

TEST_CASE("the shipped weights are read and fit each other") {
  const LearntPrior& prior = shipped_prior();
  CHECK(prior.axes().time.size() == size_t{kGridFrames});
  CHECK(prior.tasks().size() > 100);
  const CubePrior one = prior.condition({64, 256, 0.9, 3});
  const CubePoint best = one.best_point();
  CHECK(best.log10_lr > -4);
  CHECK(best.log10_lr < -0.5);
  CHECK(prior.opening({64, 256, 0.9, 3}, {}, 5).size() == 5);
  CHECK(shipped_network().parameter_count() > 1000);
  CHECK(&shipped_network() == &shipped_network());
  CHECK(shipped_cnn_prior().axes().time.size() == size_t{kGridFrames});
  CHECK(shipped_cnn_network().shape() == shipped_network().shape());
  CHECK(shipped_cnn_network().parameters().front() !=
        shipped_network().parameters().front());
}
