// The small language of `when:` and `constraints:`: numbers, words in quotes,
// true/false, parameter names (dots allowed), + - * / ( ), == != < <= > >=,
// `in [a, b]`, `and or not` (also && || !), log10(x), log(x), sqrt(x), abs(x),
// min(a, b), max(a, b).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

// An immutable parsed expression; thread-safe.
class Expression {
 public:
  struct Node;

  // Throws Error(config): text, column, what was expected there.
  static std::shared_ptr<const Expression> parse(const std::string& text);

  explicit Expression(std::unique_ptr<const Node> root);
  ~Expression();

  // The names read, sorted, each once.
  const std::vector<std::string>& names() const { return names_; }

  // Throws Error(config) where types do not fit ("'adam' < 3") or a name has
  // no value in `point`.
  Value evaluate(const Point& point) const;
  // evaluate() as true or false; numbers are true unless 0.
  bool holds(const Point& point) const;

 private:
  std::unique_ptr<const Node> root_;
  std::vector<std::string> names_;
};

}  // namespace dtune
