// What a study is to reach: the metric that it tunes, bounds on others, and
// what is expected of the result. Plain data.
#pragma once

#include <string>
#include <vector>

namespace dtune {

enum class Goal { maximize, minimize };
enum class Comparison { less, less_equal, greater, greater_equal };

// One line of `expect:` or `require:`, e.g. val_accuracy >= 0.90.
struct Expectation {
  std::string metric;
  Comparison comparison = Comparison::greater_equal;
  double bound = 0;
  std::string text;   // as written
  std::string where;  // file:line:col

  bool holds(double value) const;  // NaN holds nowhere
};

// A metric beside the objective, of which trials are a trade-off.
struct TradeOff {
  std::string metric;
  Goal goal = Goal::maximize;
};

struct ObjectiveSpec {
  std::string metric = "val_accuracy";
  Goal goal = Goal::maximize;
  std::vector<TradeOff> trade_offs;
  // Bounds on metrics: a step beyond one of them is no result.
  std::vector<Expectation> require;
};

const char* to_string(Goal goal);
const char* to_string(Comparison comparison);

}  // namespace dtune
