#include "dtune/space/expression.h"

#include <cmath>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

const Point kPoint = {
    {"lr", 0.01},   {"batch", int64_t{32}}, {"optimizer", Value("sgd")},
    {"flip", true}, {"train.l2", 1e-4},     {"weight-decay", 0.5}};

bool holds(const std::string& text) {
  return Expression::parse(text)->holds(kPoint);
}

double number(const std::string& text) {
  return *as_number(Expression::parse(text)->evaluate(kPoint));
}

std::string error_of(const std::string& text) {
  try {
    Expression::parse(text)->evaluate(kPoint);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("arithmetic binds as in mathematics") {
  CHECK(number("1 + 2 * 3") == 7);
  CHECK(number("(1 + 2) * 3") == 9);
  CHECK(number("2 - 3 - 4") == -5);
  CHECK(number("8 / 4 / 2") == 1);
  CHECK(number("-2 * -3") == 6);
  CHECK(number("+2 - -3") == 5);
  CHECK(number("1e-3 * 1e3 + .5") == 1.5);
}

TEST_CASE("functions take numbers") {
  CHECK(number("log10(100)") == 2);
  CHECK(number("log(1)") == 0);
  CHECK(number("sqrt(abs(-9))") == 3);
  CHECK(number("min(3, 1 + 1) + max(batch, 2)") == 34);
}

TEST_CASE("names are parameters, dots included, back quotes for a minus") {
  CHECK(number("batch * lr") == doctest::Approx(0.32));
  CHECK(number("train.l2") == 1e-4);
  CHECK(number("`weight-decay` * 2") == 1);
  CHECK(Expression::parse("b < a and a in [c, 1]")->names() ==
        std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("comparisons and logic") {
  CHECK(holds("lr < 0.1"));
  CHECK(holds("batch >= 32 and batch <= 32"));
  CHECK(holds("lr > 1 or batch == 32"));
  CHECK(holds("not lr > 1"));
  CHECK(holds("!(lr > 1) && !flip || flip"));
  CHECK(holds("flip"));
  CHECK(holds("flip == true"));
  CHECK(holds("optimizer == 'sgd'"));
  CHECK(holds("optimizer != \"adam\""));
  CHECK(holds("optimizer in ['adam', 'sgd']"));
  CHECK(holds("batch not in [16, 64]"));
  CHECK_FALSE(holds("batch in [16, 64]"));
}

TEST_CASE("and binds tighter than or, not tighter than and") {
  CHECK(holds("true or false and false"));
  CHECK_FALSE(holds("(true or false) and false"));
  CHECK(holds("not false and true"));
}

TEST_CASE("key words inside names are names") {
  const Point point = {
      {"order", 1.0}, {"android", 2.0}, {"nothing", 3.0}, {"index", 4.0}};
  CHECK(Expression::parse("order < android and nothing < index")->holds(point));
}

TEST_CASE("a word and a number are never equal") {
  CHECK_FALSE(holds("optimizer == 3"));
  CHECK(holds("optimizer != 3"));
}

TEST_CASE("impossible arithmetic has the results of IEEE") {
  CHECK(std::isinf(number("1 / 0")));
  CHECK(std::isnan(number("0 / 0")));
  CHECK(std::isnan(number("log(-1)")));
  CHECK(std::isinf(number("log10(0)")));
  CHECK_FALSE(holds("0 / 0"));
  CHECK_FALSE(holds("0 / 0 == 0 / 0"));
  CHECK_FALSE(holds("sqrt(-1) < 1"));
  CHECK(holds("1 / 0 > 1e308"));
}

TEST_CASE("evaluation stops where the result is known") {
  CHECK(holds("true or missing > 1"));
  CHECK_FALSE(holds("false and missing > 1"));
}

TEST_CASE("errors give the column, what was expected and a remedy") {
  CHECK(error_of("lr *") ==
        "'lr *', column 5: expected a number, a name, a 'word' or '('");
  CHECK(error_of("lr = 3") ==
        "'lr = 3', column 4: expected an operator or the end (write == to "
        "compare)");
  CHECK(error_of("(lr < 3") == "'(lr < 3', column 8: expected ')'");
  CHECK(error_of("0 < lr < 1") ==
        "'0 < lr < 1', column 10: comparisons do not chain (write 'a < b and b "
        "< c')");
  CHECK(error_of("lr in 3") == "'lr in 3', column 7: expected '['");
  CHECK(error_of("lr not 3") ==
        "'lr not 3', column 8: expected 'in' after "
        "'not'");
  CHECK(error_of("optimizer == 'sgd") ==
        "'optimizer == 'sgd', column 14: the quote is not closed (add ')");
  CHECK(error_of("lg(3)") ==
        "'lg(3)', column 1: unknown function 'lg', did you mean 'log'? (there "
        "are log10, log, sqrt, abs, min and max)");
  CHECK(error_of("min(3)") == "'min(3)', column 6: min takes 2 values, not 1");
  CHECK(error_of("and lr") ==
        "'and lr', column 1: expected a value before 'and'");
  CHECK(error_of("3x") ==
        "'3x', column 2: expected an operator after the number");
  CHECK(error_of("1e999 > 1") ==
        "'1e999 > 1', column 1: expected a number (write 0.5, 32 or 1e-4)");
  CHECK(error_of(" ") ==
        "the expression is empty (write one such as 'lr < 0.1')");
}

TEST_CASE("types that do not fit are named") {
  CHECK(error_of("optimizer < 3") ==
        "'<' needs numbers, optimizer is a word (compare words with == or in "
        "[...])");
  CHECK(error_of("'adam' + 1") ==
        "'+' needs numbers, 'adam' is a word (compare words with == or in "
        "[...])");
  CHECK(error_of("not optimizer") ==
        "'not' needs numbers, optimizer is a word (compare words with == or in "
        "[...])");
  CHECK(error_of("missing > 1") ==
        "'missing' has no value here (it may be an inactive parameter)");
  CHECK_THROWS_AS(holds("optimizer"), Error);
}

TEST_CASE("types can be checked before any point is there") {
  const auto types = [](const std::string& name) {
    return name == "word"    ? ValueType::word
           : name == "mixed" ? ValueType::mixed
                             : ValueType::number;
  };
  const auto check = [&](const char* text) {
    Expression::parse(text)->check_types(types);
  };
  check("word == 'a' and mixed in [1, 'b'] and x < 3");
  CHECK_THROWS_AS(check("x < 1 or word < 2"), Error);
  CHECK_THROWS_AS(check("mixed + 1 < 2"), Error);
  CHECK_THROWS_AS(check("word"), Error);
}

TEST_CASE("a deep or long expression is refused, not a crash") {
  const auto nested = [](const char* open, const char* close, int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += open;
    text += "1";
    for (int i = 0; i < depth; ++i) text += close;
    return text;
  };
  CHECK(number(nested("(", ")", 50)) == 1);
  for (const auto& [open, close] :
       {std::pair("(", ")"), std::pair("-", ""), std::pair("not ", ""),
        std::pair("!", ""), std::pair("abs(", ")"), std::pair("(-", ")")}) {
    const std::string text = error_of(nested(open, close, 300));
    CHECK(text.find("is nested too deep (use fewer brackets") !=
          std::string::npos);
  }
  CHECK(error_of(nested("(", ")", 100'000)).find("at most 2000 are read") !=
        std::string::npos);
}

TEST_CASE("the longest chains evaluate without exhausting the stack") {
  std::string sum = "1";
  while (sum.size() < 1990) sum += "+1";
  CHECK(number(sum) == double((sum.size() + 1) / 2));
  std::string disjunction = "0";
  while (disjunction.size() < 1990) disjunction += " or 0";
  CHECK_FALSE(holds(disjunction));
}

TEST_CASE("the error of a long expression shows what is around the place") {
  std::string sum = "1";
  while (sum.size() < 300) sum += " + 1";
  const std::string text = error_of(sum + " +");
  CHECK(text.starts_with("'..."));
  CHECK(text.size() < 200);
}

TEST_CASE("random texts parse or throw, and nothing else") {
  const std::string pieces[] = {
      "lr",  "batch", "1",   ".5",   "(",  ")",  "[",  "]", ",", "in",
      "not", "and",   "or",  "<",    "==", "!",  "-",  "*", "/", "'a'",
      "`b`", "log",   "min", "\x80", "\n", "1e", "&&", "|"};
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t k = rng.below(12); k > 0; --k) {
      text += pieces[rng.below(std::size(pieces))];
      if (rng.below(2) == 0) text += ' ';
    }
    error_of(text);
  }
}
