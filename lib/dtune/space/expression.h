// The small language of `when:` and `constraints:`: numbers, words in quotes,
// true/false, parameter names (dots allowed; in `back quotes` where they hold a
// minus), + - * / ( ), == != < <= > >=, `in [a, b]`, `not in [a, b]`,
// `and or not` (also && || !), log10(x), log(x), sqrt(x), abs(x), min(a, b),
// max(a, b).
//
// Arithmetic is that of IEEE doubles: 1 / 0 is infinite, 0 / 0 and log(-1) are
// no number; a comparison with no number is false (but for !=), and no number
// by itself counts as false.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

// What a name or an expression can be.
enum class ValueType {
  number,  // or true/false
  word,
  mixed,  // one at one point, the other at another
};

// An immutable parsed expression; thread-safe. At most 2,000 characters and 128
// levels of nesting (a bracket is two), so that neither reading nor evaluating
// one can exhaust the stack.
class Expression {
 public:
  struct Node;

  // Throws Error(config): text, column, what was expected there.
  static std::shared_ptr<const Expression> parse(const std::string& text);

  explicit Expression(std::unique_ptr<const Node> root);
  ~Expression();

  // The names read, sorted, each once.
  const std::vector<std::string>& names() const { return names_; }

  // Throws Error(config) where types do not fit ("'adam' < 3") for some value
  // of the names; after a check evaluate() fails for missing names alone. A
  // condition as a whole must be a number or true/false.
  void check_types(
      const std::function<ValueType(const std::string&)>& type_of) const;

  // Throws Error(config) where types do not fit or a name has no value in
  // `point`. Words and numbers are never equal.
  Value evaluate(const Point& point) const;
  // evaluate() as true or false; numbers are true unless 0.
  bool holds(const Point& point) const;

 private:
  std::unique_ptr<const Node> root_;
  std::vector<std::string> names_;
};

}  // namespace dtune
