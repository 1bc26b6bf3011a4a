#include "dtune/speed/speed_judge.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/study/recipe.h"

using namespace dtune;  // NOLINT: a test

namespace {

// Seeds that no training has seen.
const std::vector<SpeedJudgement>& shipped_rows() {
  static const std::vector<SpeedJudgement> rows = judge_speeds(
      shipped_speed_lstm(), {}, {.gangs = 16, .rounds = 250, .seed = 20'000});
  return rows;
}

SpeedJudgement row(const std::vector<SpeedJudgement>& rows,
                   const std::string& slowness, const std::string& predictor) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const SpeedJudgement& one) {
        return one.slowness == slowness && one.predictor == predictor;
      });
  REQUIRE(found != rows.end());
  return *found;
}

}  // namespace

TEST_CASE("the shipped network beats average and last value where it counts") {
  const auto efficiency = [](const std::string& slowness,
                             const std::string& predictor) {
    return row(shipped_rows(), slowness, predictor).efficiency;
  };
  for (const char* other : {"ema", "last"}) {
    CHECK(efficiency("periodic", "lstm") >
          efficiency("periodic", other) + 0.03);
    CHECK(efficiency("switching", "lstm") > efficiency("switching", other));
    CHECK(efficiency("all", "lstm") > efficiency("all", other) + 0.01);
  }
  CHECK(efficiency("switching", "lstm") >
        efficiency("switching", "ema") + 0.01);
  // The periodic rule alone is nearly as good where speeds come back.
  CHECK(efficiency("periodic", "lstm") > efficiency("periodic", "period"));
  CHECK(efficiency("all", "lstm") > efficiency("all", "period") + 0.02);
}

TEST_CASE("the shipped network errs less than the average at jumps") {
  for (const char* slowness : {"periodic", "switching"}) {
    CHECK(row(shipped_rows(), slowness, "lstm").log_error <
          0.9 * row(shipped_rows(), slowness, "ema").log_error);
  }
}

TEST_CASE("the default predictor is the best one") {
  CHECK(best_predictor(shipped_rows()) == to_string(ParallelSpec().predictor));
}

TEST_CASE("no predictor beats knowing the speeds") {
  CHECK(shipped_rows().size() == 5 * (kSlownesses.size() + 1));
  for (const SpeedJudgement& one : shipped_rows()) {
    CHECK(one.efficiency > 0);
    CHECK(one.efficiency < 1);
  }
}

TEST_CASE("recorded traces are a kind of their own in the comparison") {
  std::vector<double> square;
  for (int i = 0; i < 300; ++i) square.push_back(i / 10 % 2 == 0 ? 50 : 200);
  const auto rows = judge_speeds(shipped_speed_lstm(), {{square}},
                                 {.gangs = 1, .rounds = 40});
  CHECK(row(rows, "recorded", "lstm").efficiency >
        row(rows, "recorded", "last").efficiency);
}
