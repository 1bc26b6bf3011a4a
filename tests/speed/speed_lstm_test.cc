#include "dtune/speed/speed_lstm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/speed/speed_traces.h"
#include "dtune/speed/speed_trainer.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Small and quick, but learns.
SpeedTrainOptions short_training() {
  SpeedTrainOptions options;
  options.samples = 360;
  options.rounds = 50;
  options.batch = 12;
  options.hidden = 8;
  return options;
}

bool same(const SpeedLstm& a, const SpeedLstm& b) {
  const auto x = a.parameters();
  const auto y = b.parameters();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

}  // namespace

TEST_CASE("the gradient of the speed network is that of finite differences") {
  SpeedLstm network(5, 3);
  const SpeedLoss loss{.tilt = 0.3};
  const std::vector<SpeedStep> steps =
      speed_steps(make_speed_trace(Slowness::mixed, 25, 5));
  const size_t count = network.parameters().size();
  std::vector<double> gradient(count);
  const double value = network.add_gradient(steps, loss, 2, gradient);
  CHECK(value == doctest::Approx(network.loss(steps, loss)).epsilon(1e-12));
  // Central differences in doubles: errors of h^2 and of 1e-16 / h.
  const double h = 1e-5;
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    double& parameter = network.parameters()[i];
    const double kept = parameter;
    parameter = kept + h;
    const double above = network.loss(steps, loss);
    parameter = kept - h;
    const double below = network.loss(steps, loss);
    parameter = kept;
    const double difference = 2 * (above - below) / (2 * h);
    largest = std::max(largest, std::abs(gradient[i]));
    CHECK(std::abs(gradient[i] - difference) < 1e-7);
  }
  CHECK(largest > 1e-3);  // it is not all zeros that agree
}

TEST_CASE("learning speeds reduces the loss, also of traces not learnt from") {
  SpeedTrainOptions options = short_training();
  options.samples = 960;
  std::vector<SpeedTrainProgress> reports;
  options.progress = [&](const SpeedTrainProgress& p) { reports.push_back(p); };
  train_speed_lstm(options);
  REQUIRE(reports.size() == 10);
  CHECK(reports.back().samples == options.samples);
  CHECK(reports.back().loss < 0.9 * reports.front().loss);
  CHECK(reports.back().validation < 0.9 * reports.front().validation);
}

TEST_CASE("a seed gives one set of speed weights, another seed another") {
  SpeedTrainOptions options = short_training();
  options.samples = 24;
  const SpeedLstm first = train_speed_lstm(options);
  CHECK(same(first, train_speed_lstm(options)));
  options.seed = 2;
  CHECK_FALSE(same(first, train_speed_lstm(options)));
}

TEST_CASE("recorded traces shorter than a sample are learnt from, too") {
  SpeedTrainOptions options = short_training();
  options.samples = 24;
  const SpeedLstm without = train_speed_lstm(options);
  options.recorded = {{1, 2}, std::vector<double>(400, 3.0)};
  CHECK_FALSE(same(without, train_speed_lstm(options)));
}

TEST_CASE("speed weights come back from their file") {
  const TemporaryDirectory folder("dtune-speeds");
  SpeedLstm network(6, 1);
  network.round_parameters();
  network.save(folder.path() / "s.safetensors", "a test");
  CHECK(same(network, SpeedLstm::load(folder.path() / "s.safetensors")));
}

TEST_CASE("damaged and foreign speed weights are refused") {
  const TemporaryDirectory folder("dtune-speeds");
  const auto path = folder.path() / "s.safetensors";
  SpeedLstm network(6, 1);
  network.save(path, "a test");
  const std::string whole = read_file(path);
  const auto refused = [&](const std::string& bytes) {
    write_file_atomic(path, bytes, false);
    CHECK_THROWS_AS(SpeedLstm::load(path), Error);
  };
  refused(whole.substr(0, whole.size() - 4));
  refused("");
  std::string foreign = whole;
  foreign.replace(foreign.find("dtune speed"), 5, "other");
  refused(foreign);
  std::string infinite = whole;
  infinite.replace(infinite.size() - 4, 4, std::string("\x00\x00\x80\x7f", 4));
  refused(infinite);
  network.parameters()[0] = std::numeric_limits<double>::quiet_NaN();
  network.save(path, "a test");
  CHECK_THROWS_AS(SpeedLstm::load(path), Error);
}

TEST_CASE("no weights predict further off than the candidates and the spread") {
  SpeedLstm wild(8, 1);
  Rng rng(4);
  for (double& value : wild.parameters()) value = 100 * rng.normal();
  const std::vector<SpeedStep> steps =
      speed_steps(make_speed_trace(Slowness::mixed, 200, 9));
  SpeedLstmState state = wild.start();
  for (const SpeedStep& step : steps) {
    const auto& moment = step.moment;
    const double predicted = wild.step(moment, state) - moment.level;
    const auto [low, high] =
        std::minmax_element(moment.candidates.begin(), moment.candidates.end());
    CHECK(predicted >= *low - moment.spread - 1e-12);
    CHECK(predicted <= *high + moment.spread + 1e-12);
  }
}
