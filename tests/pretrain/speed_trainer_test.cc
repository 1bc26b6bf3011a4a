#include "dtune/pretrain/speed_trainer.h"

#include <algorithm>

#include <doctest/doctest.h>

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
