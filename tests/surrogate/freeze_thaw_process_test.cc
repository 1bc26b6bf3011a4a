#include "dtune/surrogate/freeze_thaw_process.h"

#include <cmath>

#include "surrogate/tiny_cubes.h"
#include <doctest/doctest.h>

#include "dtune/base/random.h"
#include "dtune/surrogate/freeze_thaw_kernel.h"

using namespace dtune;

namespace {

std::shared_ptr<const CubePrior> tiny_cube_prior() {
  static const auto prior =
      std::make_shared<const CubePrior>(tiny_prior(3).condition({}));
  return prior;
}

// The same mean everywhere, one component, and trainings that differ.
std::shared_ptr<const CubePrior> flat_prior() {
  const CubeAxes& axes = tiny_cube_prior()->axes();
  return std::make_shared<const CubePrior>(
      axes, 1, std::vector<float>(axes.size(), -0.5F),
      std::vector<float>(axes.size(), 0.3F), 0.3);
}

// A point whose first coordinates are those of the tiny cube.
ProcessInput input_at(std::vector<double> unit, double time = 1) {
  CubePoint cube;
  cube.log10_lr = -4 + 3 * unit[0];
  if (unit.size() > 1) cube.log10_l2 = -5 + 4 * unit[1];
  return {std::move(unit), cube, time};
}

double curve(const std::vector<double>& unit, double time) {
  const double off = unit[0] - 0.4;
  return 0.1 + (0.8 - 0.5 * off * off - 0.2 * std::abs(unit[1] - 0.6)) *
                   (1 - std::exp(-6 * time));
}

std::vector<ProcessObservation> observations(int count, uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<ProcessObservation> all;
  for (int i = 0; i < count; ++i) {
    const std::vector<double> unit = {rng.uniform(), rng.uniform()};
    const double time = 0.1 + 0.9 * rng.uniform();
    all.push_back({input_at(unit, time), curve(unit, time)});
  }
  return all;
}

std::vector<ProcessInput> queries() {
  std::vector<ProcessInput> all;
  for (const double u : {0.0, 0.35, 0.8, 1.0}) {
    for (const double time : {0.02, 0.4, 1.0}) {
      all.push_back(input_at({u, 1 - u * u}, time));
    }
  }
  return all;
}

FreezeThawProcess process_with(const std::vector<ProcessObservation>& seen,
                               bool learnt = true) {
  FreezeThawProcess process(learnt ? tiny_cube_prior() : nullptr, size_t{2});
  for (const ProcessObservation& o : seen) process.observe(o);
  return process;
}

void check_same(const FreezeThawProcess& a, const FreezeThawProcess& b) {
  const std::vector<Gaussian> of_a = a.predict(queries());
  const std::vector<Gaussian> of_b = b.predict(queries());
  for (size_t i = 0; i < of_a.size(); ++i) {
    CHECK(of_a[i].mean == doctest::Approx(of_b[i].mean).epsilon(1e-9));
    CHECK(of_a[i].variance == doctest::Approx(of_b[i].variance).epsilon(1e-9));
  }
}

void check_finite(const FreezeThawProcess& process) {
  for (const Gaussian& g : process.predict(queries())) {
    CHECK(std::isfinite(g.mean));
    CHECK(std::isfinite(g.variance));
    CHECK(g.variance > 0);
  }
  CHECK(std::isfinite(process.warp().top));
  CHECK(process.warp().scale > 0);
  CHECK(process.noise() > 0);
}

double variance_at(const FreezeThawProcess& process,
                   const std::vector<double>& unit, double time = 1) {
  const ProcessInput at = input_at(unit, time);
  return process.predict({&at, 1}).front().variance;
}

}  // namespace

TEST_CASE("a fitted process reproduces what it has seen without noise") {
  for (const bool learnt : {false, true}) {
    CAPTURE(learnt);
    const auto seen = observations(20);
    FreezeThawProcess process = process_with(seen, learnt);
    process.fit(40);
    for (const ProcessObservation& o : seen) {
      const Gaussian g = process.predict({&o.input, 1}).front();
      CHECK(std::abs(process.warp().inverse(g.mean) - o.value) < 0.01);
    }
    // And says something between them that is better than their mean.
    double squares = 0;
    double spread = 0;
    for (const ProcessObservation& o : observations(50, 2)) {
      const Gaussian g = process.predict({&o.input, 1}).front();
      squares += std::pow(process.warp().inverse(g.mean) - o.value, 2);
      spread += std::pow(0.68 - o.value, 2);
    }
    CHECK(squares < 0.3 * spread);
  }
}

TEST_CASE("a process is surer near what it has seen, in space and in time") {
  const FreezeThawProcess process =
      process_with({{input_at({0.3, 0.3}, 0.5), 0.7}}, false);
  const double here = variance_at(process, {0.3, 0.3}, 0.5);
  const double near = variance_at(process, {0.35, 0.3}, 0.5);
  const double far = variance_at(process, {0.9, 0.3}, 0.5);
  CHECK(here < 0.05 * far);
  CHECK(here < near);
  CHECK(near < far);
  CHECK(variance_at(process, {0.3, 0.3}, 0.6) > here);
  CHECK(variance_at(process, {0.3, 0.3}, 1) >
        variance_at(process, {0.3, 0.3}, 0.6));
}

TEST_CASE("what was seen under another word or batch size counts less") {
  for (const bool categorical : {true, false}) {
    CAPTURE(categorical);
    FreezeThawProcess process(
        tiny_cube_prior(),
        std::vector<ProcessDimension>{
            {}, {.categorical = categorical, .recorded = false}});
    const ProcessInput seen = input_at({0.5, 0.25});
    ProcessInput other = seen;
    other.unit[1] = 0.75;
    const double expected = process.predict({&seen, 1}).front().mean;
    process.observe({seen, 0.2});
    const Gaussian here = process.predict({&seen, 1}).front();
    const Gaussian there = process.predict({&other, 1}).front();
    CHECK(here.variance < there.variance);
    // Both learn from the bad value, the other one less.
    CHECK(here.mean < there.mean);
    CHECK(there.mean < expected);
    CHECK(here.mean < expected - 0.5);
  }
}

TEST_CASE("all other words of a dimension are equally far") {
  FreezeThawProcess process(nullptr,
                            std::vector<ProcessDimension>{
                                {}, {.categorical = true, .recorded = false}});
  process.observe({input_at({0.5, 0.1}), 0.6});
  CHECK(variance_at(process, {0.5, 0.3}) ==
        doctest::Approx(variance_at(process, {0.5, 0.9})));
}

TEST_CASE("replacing observations is the same as observing them") {
  const auto seen = observations(9);
  FreezeThawProcess replaced = process_with(observations(5, 7));
  replaced.replace_observations(seen);
  CHECK(replaced.size() == 9);
  check_same(replaced, process_with(seen));
  replaced.replace_observations({});
  CHECK(replaced.size() == 0);
  check_same(replaced, process_with({}));
}

TEST_CASE("a copy of a process is independent of it") {
  const auto seen = observations(6);
  const FreezeThawProcess process = process_with(seen);
  FreezeThawProcess copy = process.copy();
  check_same(copy, process);
  copy.observe({input_at({0.5, 0.5}), 0.1});
  copy.fit(5);
  CHECK(process.size() == 6);
  check_same(process, process_with(seen));
}

TEST_CASE("what is fantasized narrows the band and leaves the means") {
  const FreezeThawProcess process = process_with(observations(6));
  FreezeThawProcess copy = process.copy();
  const std::vector<ProcessInput> pending = {input_at({0.9, 0.9}, 0.5),
                                             input_at({0.1, 0.2})};
  copy.fantasize(pending);
  const std::vector<Gaussian> before = process.predict(queries());
  const std::vector<Gaussian> after = copy.predict(queries());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(std::abs(after[i].mean - before[i].mean) < 1e-6);
    CHECK(after[i].variance <= before[i].variance + 1e-9);
  }
  CHECK(copy.predict(pending).front().variance <
        0.5 * process.predict(pending).front().variance);
}

TEST_CASE("a fit depends on the observations alone") {
  const auto seen = observations(15);
  FreezeThawProcess a = process_with(seen);
  FreezeThawProcess b = process_with(seen);
  a.fit(12);
  b.fit(12);
  const auto of_a = a.predict(queries());
  const auto of_b = b.predict(queries());
  for (size_t i = 0; i < of_a.size(); ++i) {
    CHECK(of_a[i].mean == of_b[i].mean);
    CHECK(of_a[i].variance == of_b[i].variance);
  }
}

TEST_CASE(
    "a fit in pieces is the fit at once, of what was there at its start") {
  const auto seen = observations(15);
  FreezeThawProcess at_once = process_with(seen);
  FreezeThawProcess in_pieces = process_with(seen);
  at_once.fit(12);
  FreezeThawProcess::Fit fit = in_pieces.begin_fit(12);
  const ProcessObservation later = {queries().front(), 0.3};
  in_pieces.observe(later);
  int pieces = 1;
  while (fit.step()) ++pieces;
  CHECK(pieces > 1);
  CHECK(pieces <= 12);
  in_pieces.adopt(fit);
  CHECK(in_pieces.noise() == at_once.noise());
  CHECK(in_pieces.scale() == at_once.scale());
  CHECK(in_pieces.size() == at_once.size() + 1);
}

TEST_CASE("few, equal, repeated and extreme observations do no harm") {
  const ProcessInput here = input_at({0.5, 0.5});
  const std::vector<std::vector<ProcessObservation>> cases = {
      {},
      {{here, 0.7}},
      {{here, 0.0}},
      {{here, 0.5}, {here, 0.5}, {here, 0.5}, {here, 0.5}},
      {{here, 0.0}, {here, 1.0}, {here, 0.0}, {here, 1.0}},
      {{input_at({0, 0}), 0.1}, {input_at({1, 1}), 0.1}},
      {{input_at({0, 0}, 1e-9), 0.1}, {input_at({0, 0}, 1), 0.9}}};
  for (const bool learnt : {false, true}) {
    for (const auto& seen : cases) {
      FreezeThawProcess process = process_with(seen, learnt);
      process.fit(20);
      check_finite(process);
    }
  }
}

TEST_CASE("observations without noise that nearly repeat others do no harm") {
  for (const bool learnt : {false, true}) {
    for (const double gap : {0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-4}) {
      CAPTURE(learnt);
      CAPTURE(gap);
      auto seen = observations(40);
      FreezeThawProcess process(learnt ? tiny_cube_prior() : nullptr,
                                size_t{2});
      process.replace_observations(seen);
      process.fit(60);
      Rng rng(3);
      for (int i = 0; i < 160; ++i) {
        ProcessObservation again = seen[rng.below(40)];
        for (double& u : again.input.unit) u += gap * rng.normal();
        again.value = curve(again.input.unit, again.input.time);
        process.observe(again);
      }
      process.fit(10);
      check_finite(process);
      CHECK_FALSE(process.given_up());
      for (const ProcessObservation& o : seen) {
        const Gaussian g = process.predict({&o.input, 1}).front();
        CHECK(std::abs(process.warp().inverse(g.mean) - o.value) < 0.02);
      }
    }
  }
}

namespace {

// Curves without noise of points at the optimum of a smooth function, `width`
// away and much nearer: what a study that has found it looks like.
std::vector<ProcessObservation> near_optimum(size_t count, double width) {
  Rng rng(1);
  std::vector<ProcessObservation> seen;
  while (seen.size() < count) {
    const double scale = width * std::pow(0.01, rng.uniform());
    std::vector<double> unit;
    double square = 0;
    for (const double best : {0.6, 0.4, 0.3}) {
      const double off = scale * rng.normal();
      unit.push_back(best + off);
      square += off * off;
    }
    for (const double step : {1, 2, 4, 8, 13, 20, 30}) {
      const double time = step / 30;
      seen.push_back(
          {{unit, {}, time}, 0.95 - 0.5 * square - 0.3 * std::exp(-8 * time)});
    }
  }
  seen.resize(count);
  return seen;
}

}  // namespace

TEST_CASE("a fit at the edge of what doubles hold takes in more") {
  for (const double width : {0.2, 0.01}) {
    CAPTURE(width);
    const auto seen = near_optimum(210, width);
    FreezeThawProcess process(nullptr, size_t{3});
    process.replace_observations({seen.data(), 140});
    for (int i = 0; i < 3; ++i) process.fit(12);
    for (size_t i = 140; i < seen.size(); ++i) process.observe(seen[i]);
    CHECK_FALSE(process.given_up());
    process.fit(12);
    for (const ProcessObservation& o : seen) {
      const Gaussian g = process.predict({&o.input, 1}).front();
      CHECK(std::abs(process.warp().inverse(g.mean) - o.value) < 0.01);
    }
  }
}

TEST_CASE("a metric in other units is predicted as before") {
  const auto seen = observations(30);
  FreezeThawProcess process = process_with(seen);
  process.fit(12);
  FreezeThawProcess other = process.copy();
  std::vector<double> values;
  for (const ProcessObservation& o : seen) values.push_back(5 + 2 * o.value);
  other.rescale(5, 2, values);
  const auto before = process.predict(queries());
  const auto after = other.predict(queries());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(other.warp().inverse(after[i].mean) ==
          doctest::Approx(5 + 2 * process.warp().inverse(before[i].mean)));
    CHECK(after[i].variance == doctest::Approx(before[i].variance));
  }
}

TEST_CASE("means and surprises are those of predictions") {
  auto seen = observations(12);
  FreezeThawProcess process = process_with(seen);
  process.fit(8);
  const std::vector<double> means = process.observed_means();
  for (size_t i = 0; i < seen.size(); ++i) {
    CHECK(means[i] ==
          doctest::Approx(process.predict({&seen[i].input, 1}).front().mean)
              .epsilon(1e-6));
  }
  // The last one, before it was taken in.
  FreezeThawProcess before = process.copy();
  before.replace_observations({seen.data(), seen.size() - 1});
  const Gaussian g = before.predict({&seen.back().input, 1}).front();
  const double deviation = std::sqrt(g.variance + std::pow(process.noise(), 2));
  const auto surprise = process.surprises().back();
  CHECK(surprise.deviation == doctest::Approx(deviation).epsilon(1e-3));
  CHECK(surprise.deviations * surprise.deviation ==
        doctest::Approx(process.warp()(seen.back().value) - g.mean)
            .epsilon(1e-3));
}

TEST_CASE("the reports of one training say less than those of several") {
  constexpr double kLucky = 0.95;
  const auto deviation = [&](auto training_of) {
    FreezeThawProcess process(flat_prior(), size_t{2});
    for (int i = 1; i <= 4; ++i) {
      ProcessInput input = input_at({0.5, 0.5}, 0.2 * i);
      input.training = training_of(i);
      process.observe({input, kLucky});
    }
    const ProcessInput here = input_at({0.5, 0.5}, 0.8);
    return std::sqrt(process.predict({&here, 1}).front().variance);
  };
  const double of_one = deviation([](int) { return 1; });
  const double of_several = deviation([](int i) { return i; });
  CHECK(of_one > 1.15 * of_several);
  CHECK(of_several > deviation([](int) { return kNoTraining; }));
}

TEST_CASE("a training goes on as it began, another one need not") {
  FreezeThawProcess process(flat_prior(), size_t{2});
  ProcessInput at = input_at({0.5, 0.5}, 0.5);
  at.training = 7;
  process.observe({at, 0.95});
  at.time = 0.7;
  std::vector<ProcessInput> queries(3, at);
  queries[1].training = kNewTraining;
  queries[2].training = kNoTraining;
  const std::vector<Gaussian> same = process.predict(queries);
  CHECK(same[0].mean > same[1].mean + 0.1);
  CHECK(same[1].mean == doctest::Approx(same[2].mean));
  CHECK(same[0].variance < same[1].variance);
  CHECK(same[2].variance < same[1].variance);
  CHECK(process.observed_means().front() < process.warp()(0.95) - 0.1);
}

TEST_CASE("beyond the recorded cube what its end teaches counts less") {
  FreezeThawProcess process(tiny_cube_prior(), size_t{2});
  const auto at = [](double log10_lr) {
    ProcessInput input = input_at({0.5, 0.5});
    input.cube.log10_lr = log10_lr;
    return input;
  };
  for (const double end : {-4.0, -1.0}) {
    const double outward = end < -2 ? -1 : 1;
    process.replace_observations(
        std::vector<ProcessObservation>{{at(end), 0.3}});
    const auto variance = [&](double log10_lr) {
      const ProcessInput input = at(log10_lr);
      return process.predict({&input, 1}).front().variance;
    };
    CHECK(variance(end) < variance(end + 0.3 * outward));
    CHECK(variance(end + 0.3 * outward) < variance(end + outward));
  }
}

TEST_CASE("three hundred noisy observations with cliffs do no harm") {
  auto seen = observations(300);
  for (size_t i = 0; i < seen.size(); i += 7) {
    seen[i].value = i % 2 == 0 ? 0 : 1;
  }
  FreezeThawProcess process(tiny_cube_prior(), size_t{2});
  process.replace_observations(seen);
  process.fit(4);
  check_finite(process);
}

namespace {

// More than are computed in one go.
constexpr Eigen::Index kInputs = 40;

// Inputs, and a weighted sum of their covariances as a function of the
// hyper-parameters.
struct KernelSum {
  std::vector<ProcessDimension> dimensions = {
      {}, {.categorical = true, .recorded = false}, {.recorded = false}};
  ProcessInputs inputs;
  Eigen::MatrixXd products;
  Eigen::MatrixXd weights;

  KernelSum() {
    const auto prior = tiny_cube_prior();
    inputs.reserve_columns(3, static_cast<Eigen::Index>(prior->components()));
    Rng rng(5);
    for (int i = 0; i < kInputs; ++i) {
      const double word = rng.below(2) == 0 ? 0.25 : 0.75;
      ProcessInput input = input_at({rng.uniform(), word, rng.uniform()},
                                    0.05 + 0.9 * rng.uniform());
      input.training = static_cast<int64_t>(rng.below(4));
      inputs.append({&input, 1}, prior.get());
    }
    products = inputs.phi.transpose() * inputs.phi;
    weights.resize(kInputs, kInputs);
    for (Eigen::Index i = 0; i < kInputs; ++i) {
      for (Eigen::Index j = 0; j <= i; ++j) {
        weights(i, j) = weights(j, i) = rng.normal();
      }
    }
  }

  double operator()(const Eigen::VectorXd& hyper) const {
    const Eigen::MatrixXd lower =
        ProcessKernel(dimensions, hyper, true).self(inputs, products);
    const Eigen::MatrixXd k = lower.selfadjointView<Eigen::Lower>();
    return k.cwiseProduct(weights).sum();
  }
};

Eigen::VectorXd some_hyper() {
  Eigen::VectorXd hyper(3 + shared_hypers);
  hyper << -0.5, 0.2, -0.9, -0.3, -1.5, -1.2, -0.4, 0.1, -0.2, 0.8, -2;
  return hyper;
}

}  // namespace

TEST_CASE("the gradient of the covariance is that of differences") {
  const KernelSum sum;
  const Eigen::VectorXd hyper = some_hyper();
  Eigen::VectorXd gradient = Eigen::VectorXd::Zero(hyper.size());
  ProcessKernel(sum.dimensions, hyper, true)
      .add_gradient(sum.inputs, sum.products, sum.weights, gradient);
  for (Eigen::Index i = 0; i < hyper.size(); ++i) {
    CAPTURE(i);
    constexpr double kStep = 1e-5;
    Eigen::VectorXd above = hyper;
    Eigen::VectorXd below = hyper;
    above[i] += kStep;
    below[i] -= kStep;
    const double slope = (sum(above) - sum(below)) / (2 * kStep);
    CHECK(std::abs(gradient[i] - slope) < 1e-7 * (1 + std::abs(slope)));
  }
}

TEST_CASE(
    "what is noise is the covariance less that of what points are worth") {
  const KernelSum sum;
  const ProcessKernel kernel(sum.dimensions, some_hyper(), true);
  const Eigen::MatrixXd self =
      kernel.self(sum.inputs, sum.products).selfadjointView<Eigen::Lower>();
  ProcessInputs worth = sum.inputs;
  worth.training.setConstant(kNoTraining);
  const Eigen::VectorXd v = sum.weights.col(0);
  const Eigen::VectorXd noise = self * v - kernel.cross(worth, worth) * v;
  CHECK((kernel.times_noise(sum.inputs, v) - noise).norm() < 1e-9);
}

TEST_CASE("the covariance of a set with itself agrees with all its parts") {
  const KernelSum sum;
  const ProcessKernel kernel(sum.dimensions, some_hyper(), true);
  const Eigen::MatrixXd cross = kernel.cross(sum.inputs, sum.inputs);
  const Eigen::MatrixXd self = kernel.self(sum.inputs, sum.products);
  const Eigen::VectorXd variance = kernel.variance(sum.inputs);
  const double noise = std::exp(2 * (0.1 - 1.5));  // scale and noise
  for (Eigen::Index j = 0; j < kInputs; ++j) {
    CHECK(cross(j, j) == doctest::Approx(variance[j]));
    CHECK(self(j, j) == doctest::Approx(variance[j] + noise));
    for (Eigen::Index i = j + 1; i < kInputs; ++i) {
      CHECK(self(i, j) == doctest::Approx(cross(i, j)));
      CHECK(cross(i, j) == doctest::Approx(cross(j, i)));
    }
  }
}
