#include "dtune/space/expression.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/space/expression_node.h"

namespace dtune {
namespace {

using Node = Expression::Node;
using TypeOf = std::function<ValueType(const std::string&)>;

void collect_names(const Node& node, std::set<std::string>& names) {
  if (node.operation == Operation::name) names.insert(node.name);
  for (const auto& operand : node.operands) collect_names(*operand, names);
}

[[noreturn]] void not_a_number(const char* what, const std::string& operand) {
  throw Error(ErrorKind::config,
              fmt::format("'{}' needs numbers, {} is a word (compare words "
                          "with == or in [...])",
                          what, operand));
}

// How an operand is called in an error text.
std::string describe_operand(const Node& node) {
  if (node.operation == Operation::name) return node.name;
  if (node.operation == Operation::literal) {
    return fmt::format("'{}'", to_string(node.literal));
  }
  return "the operand";
}

double number(const Node& owner, const Node& operand, const Value& value) {
  const std::optional<double> result = as_number(value);
  if (!result) not_a_number(symbol(owner.operation), describe_operand(operand));
  return *result;
}

bool truth(double value) { return value != 0 && !std::isnan(value); }

bool equal_values(const Value& a, const Value& b) {
  const auto x = as_number(a);
  const auto y = as_number(b);
  return x && y ? *x == *y : a == b;
}

double arithmetic(Operation operation, double a, double b) {
  switch (operation) {
    case Operation::add:
      return a + b;
    case Operation::subtract:
      return a - b;
    case Operation::multiply:
      return a * b;
    case Operation::divide:
      return a / b;
    case Operation::negate:
      return -a;
    case Operation::log10:
      return std::log10(a);
    case Operation::log:
      return std::log(a);
    case Operation::sqrt:
      return std::sqrt(a);
    case Operation::abs:
      return std::abs(a);
    case Operation::min:
      return std::min(a, b);
    case Operation::max:
      return std::max(a, b);
    default:
      DTUNE_CHECK(false && "no arithmetic operation");
  }
}

bool ordered(Operation operation, double a, double b) {
  switch (operation) {
    case Operation::less:
      return a < b;
    case Operation::less_equal:
      return a <= b;
    case Operation::greater:
      return a > b;
    default:
      return a >= b;
  }
}

bool is_ordering(Operation operation) {
  return operation >= Operation::less && operation <= Operation::greater_equal;
}

Value evaluate_node(const Node& node, const Point& point);

double evaluate_number(const Node& owner, size_t index, const Point& point) {
  const Node& operand = *owner.operands[index];
  return number(owner, operand, evaluate_node(operand, point));
}

bool is_member(const Node& node, const Point& point) {
  const Value wanted = evaluate_node(*node.operands[0], point);
  return std::any_of(
      node.operands.begin() + 1, node.operands.end(), [&](const auto& operand) {
        return equal_values(wanted, evaluate_node(*operand, point));
      });
}

Value evaluate_name(const Node& node, const Point& point) {
  const auto found = point.find(node.name);
  if (found == point.end()) {
    throw Error(ErrorKind::config,
                fmt::format("'{}' has no value here (it may be an inactive "
                            "parameter)",
                            node.name));
  }
  return found->second;
}

Value evaluate_node(const Node& node, const Point& point) {
  const auto value = [&](size_t index) {
    return evaluate_node(*node.operands[index], point);
  };
  const auto holds = [&](size_t index) {
    return truth(evaluate_number(node, index, point));
  };
  switch (node.operation) {
    case Operation::literal:
      return node.literal;
    case Operation::name:
      return evaluate_name(node, point);
    case Operation::equal:
      return equal_values(value(0), value(1));
    case Operation::not_equal:
      return !equal_values(value(0), value(1));
    case Operation::in:
      return is_member(node, point);
    case Operation::not_in:
      return !is_member(node, point);
    case Operation::logical_and:
      return holds(0) && holds(1);
    case Operation::logical_or:
      return holds(0) || holds(1);
    case Operation::logical_not:
      return !holds(0);
    default:
      break;
  }
  const double a = evaluate_number(node, 0, point);
  const double b =
      node.operands.size() > 1 ? evaluate_number(node, 1, point) : 0;
  if (is_ordering(node.operation)) return ordered(node.operation, a, b);
  return arithmetic(node.operation, a, b);
}

ValueType type_of_node(const Node& node, const TypeOf& type_of) {
  if (node.operation == Operation::literal) {
    return as_number(node.literal) ? ValueType::number : ValueType::word;
  }
  if (node.operation == Operation::name) return type_of(node.name);
  const bool any_type = node.operation == Operation::equal ||
                        node.operation == Operation::not_equal ||
                        node.operation == Operation::in ||
                        node.operation == Operation::not_in;
  for (const auto& operand : node.operands) {
    const ValueType type = type_of_node(*operand, type_of);
    if (type != ValueType::number && !any_type) {
      not_a_number(symbol(node.operation), describe_operand(*operand));
    }
  }
  return ValueType::number;
}

}  // namespace

const char* symbol(Operation operation) {
  constexpr const char* kSymbols[] = {"",     "",    "-",   "+",     "-",
                                      "*",    "/",   "==",  "!=",    "<",
                                      "<=",   ">",   ">=",  "in",    "not in",
                                      "and",  "or",  "not", "log10", "log",
                                      "sqrt", "abs", "min", "max"};
  static_assert(std::size(kSymbols) == size_t(Operation::max) + 1);
  return kSymbols[size_t(operation)];
}

std::shared_ptr<const Expression> Expression::parse(const std::string& text) {
  return std::make_shared<const Expression>(parse_expression(text));
}

Expression::Expression(std::unique_ptr<const Node> root)
    : root_(std::move(root)) {
  std::set<std::string> names;
  collect_names(*root_, names);
  names_.assign(names.begin(), names.end());
}

Expression::~Expression() = default;

void Expression::check_types(const TypeOf& type_of) const {
  if (type_of_node(*root_, type_of) != ValueType::number) {
    throw Error(ErrorKind::config,
                fmt::format("{} is a word, neither true nor false (compare it "
                            "with ==)",
                            describe_operand(*root_)));
  }
}

Value Expression::evaluate(const Point& point) const {
  return evaluate_node(*root_, point);
}

bool Expression::holds(const Point& point) const {
  const std::optional<double> value = as_number(evaluate(point));
  if (!value) {
    throw Error(ErrorKind::config,
                fmt::format("{} is a word, neither true nor false (compare it "
                            "with ==)",
                            describe_operand(*root_)));
  }
  return truth(*value);
}

}  // namespace dtune
