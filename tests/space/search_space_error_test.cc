// Every way to write a wrong space, and the text that it earns.
#include <limits>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/space/search_space.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)

namespace {

Parameter lr() {
  Parameter parameter;
  parameter.name = "lr";
  parameter.low = 1e-4;
  parameter.high = 0.5;
  parameter.log = true;
  return parameter;
}

Parameter batch() {
  Parameter parameter;
  parameter.name = "batch";
  parameter.kind = ParameterKind::integer;
  parameter.low = 16;
  parameter.high = 128;
  return parameter;
}

Parameter optimizer() {
  Parameter parameter;
  parameter.name = "optimizer";
  parameter.kind = ParameterKind::categorical;
  parameter.choices = {Value("sgd"), Value("adam")};
  return parameter;
}

std::string error_of(std::vector<Parameter> parameters,
                     std::vector<std::string> constraints = {}) {
  try {
    SearchSpace(std::move(parameters), std::move(constraints));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "no error";
}

// The error of a parameter after one change.
template <typename Change>
std::string error_of_changed(Parameter parameter, Change change) {
  change(parameter);
  return error_of({parameter});
}

}  // namespace

TEST_CASE("sound parameters make a space") {
  CHECK(error_of({lr(), batch(), optimizer()},
                 {"lr < 0.1 or optimizer == 'sgd'"}) == "no error");
}

TEST_CASE("names are checked") {
  CHECK(error_of({lr(), batch(), lr()}) ==
        "space.lr: occurs twice (remove one, or rename it and set its key)");
  for (const char* name : {"", "2x", "a b", "and", "true", "-x", "a\n"}) {
    CHECK(
        error_of_changed(lr(), [&](Parameter& p) { p.name = name; })
            .find(
                "is not a valid name (use letters, digits, '_', '.' and '-'") !=
        std::string::npos);
  }
}

TEST_CASE("ranges are checked") {
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.low = 0.9; }) ==
        "space.lr: the range [0.9, 0.5] is reversed (write [0.5, 0.9])");
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.low = 0.5; }) ==
        "space.lr: the range [0.5, 0.5] holds one value (write 'lr: 0.5')");
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.low = 0; }) ==
        "space.lr: a log range cannot touch 0, and starts at 0 (use a small "
        "positive number such as 1e-6, or linear)");
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.low = -1; })
            .find("a log range cannot touch 0, and starts at -1") !=
        std::string::npos);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    CHECK(error_of_changed(lr(), [&](Parameter& p) {
            p.high = bad;
          }).find("is not finite") != std::string::npos);
  }
  CHECK(error_of_changed(lr(), [](Parameter& p) {
          p.log = false;
          p.low = -1.7e308;
          p.high = 1.7e308;
        }).find("is not finite") != std::string::npos);
}

TEST_CASE("integers are checked") {
  CHECK(error_of_changed(batch(), [](Parameter& p) { p.low = 1.5; }) ==
        "space.batch: 1.5 is not a valid bound for integers (use whole numbers "
        "below "
        "2^53)");
  CHECK(error_of_changed(batch(), [](Parameter& p) { p.quantum = 0.5; }) ==
        "space.batch: the step 0.5 of integers is not a whole number");
  CHECK(error_of_changed(batch(), [](Parameter& p) { p.high = 1e15; }) ==
        "space.batch: has more than 2^40 values (use a larger step or a "
        "real)");
}

TEST_CASE("quanta are checked") {
  CHECK(error_of_changed(batch(), [](Parameter& p) { p.quantum = 50; }) ==
        "space.batch: 128 is not 16 + k 50 (use 116 or 166 as the upper "
        "bound)");
  CHECK(error_of_changed(batch(), [](Parameter& p) { p.quantum = 500; }) ==
        "space.batch: 128 is not 16 + k 500 (use 16 or 516 as the upper "
        "bound)");
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.quantum = -1; }) ==
        "space.lr: the step -1 is not positive");
}

TEST_CASE("choices are checked") {
  CHECK(error_of_changed(optimizer(), [](Parameter& p) {
          p.choices.clear();
        }) == "space.optimizer: has no choices (list at least two)");
  CHECK(error_of_changed(optimizer(), [](Parameter& p) {
          p.choices.push_back(Value("sgd"));
        }) == "space.optimizer: the choice 'sgd' is listed twice");
  CHECK(error_of_changed(optimizer(), [](Parameter& p) {
          p.choices.push_back(std::numeric_limits<double>::quiet_NaN());
        }) == "space.optimizer: a choice is not finite");
}

TEST_CASE("conditions are checked") {
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.when = "lr >"; }) ==
        "space.lr: when: 'lr >', column 5: expected a number, a name, a 'word' "
        "or '('");
  Parameter conditional = lr();
  conditional.when = "optimzer == 'sgd'";
  CHECK(error_of({optimizer(), conditional}) ==
        "space.lr: when: unknown parameter 'optimzer', did you mean "
        "'optimizer'? (quote it if it is a word)");
  conditional.when = "optimizer == sgd";
  CHECK(error_of({optimizer(), conditional}) ==
        "space.lr: when: unknown parameter 'sgd' (quote it if it is a word)");
  conditional.when = "optimizer > 3";
  CHECK(error_of({optimizer(), conditional}) ==
        "space.lr: when: '>' needs numbers, optimizer is a word (compare words "
        "with == or in [...])");
}

TEST_CASE("circular conditions are refused") {
  Parameter a = lr();
  a.when = "batch > 20";
  Parameter b = batch();
  b.when = "lr > 0.1";
  CHECK(
      error_of({a, b}) ==
      "space.lr: when: the conditions of lr, batch form a cycle (remove one)");
  a.when = "lr > 0.1";
  CHECK(error_of({optimizer(), a}) ==
        "space.lr: when: the conditions of lr form a cycle "
        "(remove one)");
}

TEST_CASE("constraints are checked") {
  CHECK(error_of({lr()}, {"lr < 1", "lr <"}) ==
        "constraints[1]: 'lr <', column 5: expected a number, a name, a 'word' "
        "or '('");
  CHECK(error_of({lr()}, {"l < 1"}) ==
        "constraints[0]: unknown parameter 'l', did you mean 'lr'? (quote it "
        "if it is a word)");
  CHECK(error_of({lr()}, {"1 < 2"}) ==
        "constraints[0]: '1 < 2' reads no parameter (remove it, or name one)");
  CHECK(error_of({optimizer()}, {"optimizer"}) ==
        "constraints[0]: optimizer is a word, neither true nor false (compare "
        "it with ==)");
}

TEST_CASE("priors are checked and brought into the parameter's type") {
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.prior = 0.9; }) ==
        "space.lr: the prior 0.9 is outside [0.0001, 0.5]");
  CHECK(error_of_changed(lr(), [](Parameter& p) { p.prior = Value("big"); }) ==
        "space.lr: the prior 'big' is not a real number");
  CHECK(error_of_changed(optimizer(), [](Parameter& p) {
          p.prior = Value("adm");
        }) == "space.optimizer: the prior 'adm' is not one of sgd, adam");
  Parameter wide = batch();
  wide.prior = 32.0;
  CHECK(SearchSpace({wide}).parameters()[0].prior == Value(int64_t{32}));
  wide.prior = 32.5;
  CHECK(error_of({wide}) == "space.batch: the prior '32.5' is not an integer");
  Parameter rate = lr();
  rate.high = 2;
  rate.prior = int64_t{1};
  CHECK(SearchSpace({rate}).parameters()[0].prior == Value(1.0));
}

TEST_CASE("constraints that nothing satisfies are found before any trial") {
  const auto reason = [](std::vector<std::string> constraints) {
    try {
      SearchSpace({lr(), batch()}, std::move(constraints))
          .check_satisfiable(2000);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::config);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(reason({}) == "no error");
  CHECK(reason({"lr < 0.1", "batch > 20"}) == "no error");
  CHECK(reason({"lr < 0.1", "lr > 1"}) ==
        "constraints: no point among 2000 satisfies 'lr > 1' (loosen it, or "
        "the ranges)");
  CHECK(reason({"lr < 0.01", "lr > 0.01"}) ==
        "constraints: no point among 2000 satisfies 'lr < 0.01', 'lr > 0.01' "
        "together (loosen it, or the ranges)");
}
