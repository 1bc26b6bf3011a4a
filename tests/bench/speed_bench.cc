// What knowing ranks' next speeds is worth: gangs of four ranks, some slowed,
// whose shares of a batch follow predictions (LB-BSP). Prints rows for
// bench_runner; ours and baseline are shares of the throughput with the next
// speeds known.
//
// Expected: lstm 0.89 of the ideal over all kinds, 0.93 on periodic slowness,
// last 0.87 both; a prediction takes some microseconds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/speed/speed_judge.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

constexpr double kLimit = 20;  // us

double efficiency(const std::vector<SpeedJudgement>& rows,
                  const std::string& slowness, const std::string& predictor) {
  for (const SpeedJudgement& row : rows) {
    if (row.slowness == slowness && row.predictor == predictor) {
      return row.efficiency;
    }
  }
  return 0;
}

// Against the best of the three baselines.
void print_kind(const std::vector<SpeedJudgement>& rows,
                const std::string& slowness) {
  const double last = efficiency(rows, slowness, "last");
  const double ema = efficiency(rows, slowness, "ema");
  const double period = efficiency(rows, slowness, "period");
  const double lstm = efficiency(rows, slowness, "lstm");
  const double baseline = std::max({last, ema, period});
  fmt::print(
      R"({{"name": "speeds predicted, {}", "ours": {:.4f}, )"
      R"("baseline": {:.4f}, "ratio": {:.4f}, "goal": 1.0, "ok": {}, )"
      R"("unit": "of ideal", "detail": "lstm {:.4f}, ema {:.4f}, last )"
      R"({:.4f}, periodic rule {:.4f}; shares that never change {:.4f}"}})"
      "\n",
      slowness, lstm, baseline, lstm / baseline, lstm >= baseline, lstm, ema,
      last, period, efficiency(rows, slowness, "even"));
}

// Of the processor: waiting for it does not count.
double microseconds_a_round() {
  const std::vector<double> trace = make_speed_trace(Slowness::mixed, 2000, 1);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto predictor = make_speed_predictor(PredictorKind::lstm);
    const std::clock_t began = std::clock();
    double sum = 0;
    for (const double speed : trace) {
      predictor->observe(speed);
      sum += predictor->predict();
    }
    const double spent = 1e6 * static_cast<double>(std::clock() - began) /
                         static_cast<double>(CLOCKS_PER_SEC);
    best = std::min(best, spent / static_cast<double>(trace.size()));
    // A use of the result, without which nothing would be computed.
    if (sum < 0) std::fprintf(stderr, "negative\n");
  }
  return best;
}

}  // namespace

int main() try {
  const auto rows = judge_speeds(shipped_speed_lstm(), {}, {});
  for (const Slowness kind : kSlownesses) print_kind(rows, to_string(kind));
  print_kind(rows, "all");
  const double spent = microseconds_a_round();
  fmt::print(R"({{"name": "speed of a rank observed and predicted", )"
             R"("ours": {:.2f}, "baseline": {:.0f}, "ratio": {:.2f}, )"
             R"("goal": 1.0, "ok": {}, "unit": "us", )"
             R"("detail": "lstm of {} units; baseline is the limit set"}})"
             "\n",
             spent, kLimit, kLimit / spent, spent <= kLimit,
             shipped_speed_lstm().hidden());
  return 0;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
