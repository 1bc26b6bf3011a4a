// The tree behind space/expression.h; for its parser and evaluator alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/space/expression.h"

namespace dtune {

enum class Operation {
  literal,
  name,
  negate,
  add,
  subtract,
  multiply,
  divide,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
  logical_and,
  logical_or,
  logical_not,
  log10,
  log,
  sqrt,
  abs,
  min,
  max,
};

struct Expression::Node {
  Operation operation = Operation::literal;
  Value literal;     // literal
  std::string name;  // name
  // in, not_in: the first is what is looked for, the others where.
  std::vector<std::unique_ptr<const Node>> operands;
};

// As it is written in an expression: "<=", "and", "log10".
const char* symbol(Operation operation);

// Throws Error(config) as Expression::parse does.
std::unique_ptr<const Expression::Node> parse_expression(
    const std::string& text);

}  // namespace dtune
