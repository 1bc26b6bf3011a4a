// A recursive-descent parser: one function per level of binding, loosest first.
#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/space/expression_node.h"

namespace dtune {
namespace {

using Node = Expression::Node;
using NodePtr = std::unique_ptr<const Node>;

constexpr size_t kMaxLength = 2000;
constexpr int kMaxDepth = 128;

struct Function {
  const char* name;
  Operation operation;
  size_t arguments;
};
constexpr Function kFunctions[] = {
    {"log10", Operation::log10, 1}, {"log", Operation::log, 1},
    {"sqrt", Operation::sqrt, 1},   {"abs", Operation::abs, 1},
    {"min", Operation::min, 2},     {"max", Operation::max, 2},
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

NodePtr make_node(Operation operation, NodePtr left, NodePtr right = nullptr) {
  auto node = std::make_unique<Node>();
  node->operation = operation;
  node->operands.push_back(std::move(left));
  if (right) node->operands.push_back(std::move(right));
  return node;
}

NodePtr make_literal(Value value) {
  auto node = std::make_unique<Node>();
  node->literal = std::move(value);
  return node;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  NodePtr parse() {
    if (text_.size() > kMaxLength) {
      throw Error(ErrorKind::config,
                  fmt::format("the expression has {} characters; at most {} "
                              "are read (split it into several)",
                              text_.size(), kMaxLength));
    }
    skip_space();
    if (at_ == text_.size()) {
      throw Error(ErrorKind::config,
                  "the expression is empty (write one such as 'lr < 0.1')");
    }
    NodePtr root = disjunction();
    if (at_ < text_.size()) {
      fail("expected an operator or the end",
           text_[at_] == '=' ? "write == to compare" : "");
    }
    return root;
  }

 private:
  // Counts the levels that one path through the functions below has open.
  class Level {
   public:
    explicit Level(Parser& parser) : depth_(parser.depth_) {
      if (++depth_ > kMaxDepth) {
        parser.fail("is nested too deep",
                    "use fewer brackets, or several constraints");
      }
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& depth_;
  };

  [[noreturn]] void fail(const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::config,
                fmt::format("'{}', column {}: {}{}", excerpt(), at_ + 1, what,
                            remedy.empty() ? "" : " (" + remedy + ")"));
  }

  // The text, or of a long one what is around this place.
  std::string excerpt() const {
    constexpr size_t kWidth = 60;
    if (text_.size() <= 2 * kWidth) return text_;
    const size_t begin = at_ > kWidth ? at_ - kWidth : 0;
    const size_t end = std::min(text_.size(), at_ + kWidth);
    return (begin > 0 ? "..." : "") + text_.substr(begin, end - begin) +
           (end < text_.size() ? "..." : "");
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  bool accept(std::string_view symbol) {
    if (std::string_view(text_).substr(at_, symbol.size()) != symbol) {
      return false;
    }
    at_ += symbol.size();
    skip_space();
    return true;
  }

  // The name or key word at this place, without taking it; "" if there is none.
  std::string_view peek_name() const {
    size_t end = at_;
    if (end < text_.size() && is_letter(text_[end])) {
      while (end < text_.size() &&
             (is_letter(text_[end]) || is_digit(text_[end]) ||
              text_[end] == '.')) {
        ++end;
      }
    }
    return std::string_view(text_).substr(at_, end - at_);
  }

  bool accept_word(std::string_view word) {
    return peek_name() == word && accept(word);
  }

  void expect(std::string_view symbol) {
    if (!accept(symbol)) fail(fmt::format("expected '{}'", symbol), "");
  }

  NodePtr disjunction() {
    NodePtr left = conjunction();
    while (accept_word("or") || accept("||")) {
      left = make_node(Operation::logical_or, std::move(left), conjunction());
    }
    return left;
  }

  NodePtr conjunction() {
    NodePtr left = negation();
    while (accept_word("and") || accept("&&")) {
      left = make_node(Operation::logical_and, std::move(left), negation());
    }
    return left;
  }

  NodePtr negation() {
    const Level level(*this);
    const bool bang = at_ < text_.size() && text_[at_] == '!' &&
                      text_.compare(at_, 2, "!=") != 0;
    if (accept_word("not") || (bang && accept("!"))) {
      return make_node(Operation::logical_not, negation());
    }
    return comparison();
  }

  std::optional<Operation> accept_comparison() {
    if (accept("==")) return Operation::equal;
    if (accept("!=")) return Operation::not_equal;
    if (accept("<=")) return Operation::less_equal;
    if (accept(">=")) return Operation::greater_equal;
    if (accept("<")) return Operation::less;
    if (accept(">")) return Operation::greater;
    return std::nullopt;
  }

  NodePtr comparison() {
    NodePtr left = sum();
    if (const auto operation = accept_comparison()) {
      left = make_node(*operation, std::move(left), sum());
      if (accept_comparison()) {
        fail("comparisons do not chain", "write 'a < b and b < c'");
      }
      return left;
    }
    if (accept_word("in")) return membership(Operation::in, std::move(left));
    if (accept_word("not")) {
      if (!accept_word("in")) fail("expected 'in' after 'not'", "");
      return membership(Operation::not_in, std::move(left));
    }
    return left;
  }

  NodePtr membership(Operation operation, NodePtr left) {
    auto node = std::make_unique<Node>();
    node->operation = operation;
    node->operands.push_back(std::move(left));
    expect("[");
    do {
      node->operands.push_back(sum());
    } while (accept(","));
    expect("]");
    return node;
  }

  NodePtr sum() {
    NodePtr left = product();
    while (true) {
      if (accept("+")) {
        left = make_node(Operation::add, std::move(left), product());
      } else if (accept("-")) {
        left = make_node(Operation::subtract, std::move(left), product());
      } else {
        return left;
      }
    }
  }

  NodePtr product() {
    NodePtr left = unary();
    while (true) {
      if (accept("*")) {
        left = make_node(Operation::multiply, std::move(left), unary());
      } else if (accept("/")) {
        left = make_node(Operation::divide, std::move(left), unary());
      } else {
        return left;
      }
    }
  }

  NodePtr unary() {
    const Level level(*this);
    if (accept("-")) return make_node(Operation::negate, unary());
    if (accept("+")) return unary();
    return primary();
  }

  NodePtr primary() {
    if (accept("(")) {
      NodePtr inner = disjunction();
      expect(")");
      return inner;
    }
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(c) || c == '.') return number();
    if (c == '\'' || c == '"') return make_literal(Value(quoted(c)));
    if (c == '`') return name(quoted(c));
    if (is_letter(c)) return word();
    fail("expected a number, a name, a 'word' or '('", "");
  }

  NodePtr number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    double real = 0;
    const auto as_real = std::from_chars(begin, end, real);
    if (as_real.ec != std::errc()) {
      fail("expected a number", "write 0.5, 32 or 1e-4");
    }
    int64_t integer = 0;
    const auto as_integer = std::from_chars(begin, end, integer);
    const bool whole =
        as_integer.ec == std::errc() && as_integer.ptr == as_real.ptr;
    at_ += static_cast<size_t>(as_real.ptr - begin);
    if (at_ < text_.size() && is_letter(text_[at_])) {
      fail("expected an operator after the number", "");
    }
    skip_space();
    return make_literal(whole ? Value(integer) : Value(real));
  }

  std::string quoted(char quote) {
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) {
      fail("the quote is not closed", fmt::format("add {}", quote));
    }
    std::string word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    skip_space();
    return word;
  }

  NodePtr name(std::string name) {
    auto node = std::make_unique<Node>();
    node->operation = Operation::name;
    node->name = std::move(name);
    return node;
  }

  NodePtr word() {
    const size_t start = at_;
    const std::string word(peek_name());
    for (const char* reserved : {"and", "or", "in", "not"}) {
      if (word == reserved) {
        fail(fmt::format("expected a value before '{}'", word), "");
      }
    }
    accept(word);
    if (word == "true" || word == "false") return make_literal(word == "true");
    if (at_ < text_.size() && text_[at_] == '(') return call(word, start);
    return name(word);
  }

  NodePtr call(const std::string& word, size_t start) {
    std::vector<std::string> known;
    for (const Function& function : kFunctions) {
      known.emplace_back(function.name);
      if (word == function.name) return arguments(function);
    }
    at_ = start;
    fail(
        fmt::format("unknown function '{}'{}", word, did_you_mean(word, known)),
        "there are log10, log, sqrt, abs, min and max");
  }

  NodePtr arguments(const Function& function) {
    auto node = std::make_unique<Node>();
    node->operation = function.operation;
    expect("(");
    do {
      node->operands.push_back(disjunction());
    } while (accept(","));
    if (node->operands.size() != function.arguments) {
      fail(fmt::format("{} takes {} value{}, not {}", function.name,
                       function.arguments, function.arguments == 1 ? "" : "s",
                       node->operands.size()),
           "");
    }
    expect(")");
    return node;
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<const Expression::Node> parse_expression(
    const std::string& text) {
  return Parser(text).parse();
}

}  // namespace dtune
