// The search space of a study: distributions, conditions and constraints, and
// the map between points and the unit cube that samplers work in.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

class Expression;  // space/expression.h

enum class ParameterKind { real, integer, categorical, boolean };

// How much a user's prior weighs (`confidence:`).
enum class Confidence { low, medium, high };

// What a parameter is for a training (`role:`), where its key does not say so.
enum class ParameterRole { none, learning_rate, l2, dropout };

const char* to_string(ParameterRole role);

// One tuned parameter. Plain data; SearchSpace validates.
struct Parameter {
  std::string name;  // the name in `space:`; unique
  std::string key;   // the recipe key that it sets, e.g. "train.batch_size"
  ParameterKind kind = ParameterKind::real;
  double low = 0;              // real, integer: inclusive bounds
  double high = 1;             // real, integer: inclusive bounds
  bool log = false;            // real, integer: uniform in the logarithm
  double quantum = 0;          // real, integer: values low + k quantum; 0: none
  std::vector<Value> choices;  // categorical: at least one
  std::string when;            // condition over other parameters, or ""
  std::optional<Value> prior;  // where the user expects the best value
  Confidence confidence = Confidence::medium;
  ParameterRole role = ParameterRole::none;
  bool ordered = false;  // categorical: neighbours in `choices` are alike
};

// Immutable once made; thread-safe.
//
// The unit cube has one coordinate per parameter, in the order given:
// - real: (x - low) / (high - low), or the same of log x;
// - integer and quantised: the cell's middle, so that every value gets an equal
//   share (under `log`: the share of the interval [v - q/2, v + q/2] in log);
// - categorical, boolean: (index + 1/2) / n.
// encode(decode(u)) snaps to the nearest cell's middle. Inactive parameters
// encode as 1/2. decode(encode(p)) == p for every valid point whose reals have
// at most 12 digits (of the range; under `log`: of the value), and decode()
// gives no others: a double in [0, 1] cannot hold more of a wide range, and
// points stay readable. Any other real comes back to those 12 digits.
//
// A condition that reads an inactive parameter does not hold.
class SearchSpace {
 public:
  SearchSpace() = default;
  // Throws Error(config): duplicate names, empty or reversed ranges, a log
  // range that touches 0, unknown names in conditions (with "did you mean"),
  // circular conditions, a prior outside its range, a quantum that does not
  // fit.
  explicit SearchSpace(std::vector<Parameter> parameters,
                       std::vector<std::string> constraints = {});

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<std::string>& constraint_texts() const {
    return constraint_texts_;
  }
  size_t dimensions() const { return parameters_.size(); }
  // Index in parameters(), or empty.
  std::optional<size_t> find(const std::string& name) const;

  // REQUIRES: valid(point). Missing (inactive) parameters give 1/2.
  std::vector<double> encode(const Point& point) const;
  // REQUIRES: unit.size() == dimensions(), all in [0, 1]. Parameters whose
  // condition does not hold are left out.
  Point decode(std::span<const double> unit) const;

  // All constraints hold for the point. A constraint that reads a parameter
  // that is inactive in the point does not apply.
  bool satisfies(const Point& point) const;

  // Why the point is no point of this space (unknown, missing or inactive
  // name, wrong type, out of range, constraint), or "" if it is one.
  std::string reason_invalid(const Point& point) const;
  bool valid(const Point& point) const { return reason_invalid(point).empty(); }

  // Number of distinct points if every parameter is discrete, else empty.
  // Conditions make it an upper bound. Saturates at 2^53.
  std::optional<uint64_t> cardinality() const;

  // Draws up to `tries` pseudo-random points (always the same); throws
  // Error(config) naming the constraints if none satisfies them. Called once
  // when a recipe is loaded.
  void check_satisfiable(int tries = 10000) const;

 private:
  bool active(size_t index, const Point& so_far) const;

  void parse_condition(size_t index);
  void parse_constraint(const std::string& text);
  void sort_by_dependence();
  std::string reason_value_invalid(size_t index, const Point& point) const;

  std::vector<Parameter> parameters_;
  std::vector<size_t> order_;  // conditions before what depends on them
  std::vector<std::shared_ptr<const Expression>> conditions_;
  std::vector<std::shared_ptr<const Expression>> constraints_;
  std::vector<std::string> constraint_texts_;
};

}  // namespace dtune
