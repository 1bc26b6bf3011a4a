// A parameter's value and a point of a search space.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace dtune {

// bool, integer, real or word: what a YAML scalar can be.
using Value = std::variant<bool, int64_t, double, std::string>;

// Parameter name -> value. Inactive conditional parameters are absent.
using Point = std::map<std::string, Value>;

// Shortest text that reads back as the same value ("true", "32", "0.1").
std::string to_string(const Value& value);

// The number behind a bool, integer or real; empty for words.
std::optional<double> as_number(const Value& value);

// "lr=0.0312 l2=1.2e-05 dropout=0.3": three significant digits, for people.
std::string describe(const Point& point);

}  // namespace dtune
