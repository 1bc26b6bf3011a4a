#include "dtune/space/point_table.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

SearchSpace space() {
  Parameter lr;
  lr.name = "lr";
  lr.low = 0.001;
  lr.log = true;
  Parameter units;
  units.name = "units";
  units.kind = ParameterKind::integer;
  units.high = 100;
  Parameter kind;
  kind.name = "kind";
  kind.kind = ParameterKind::categorical;
  kind.choices = {std::string("a, b"), std::string("c"), 0.5};
  Parameter flip;
  flip.name = "flip";
  flip.kind = ParameterKind::boolean;
  flip.when = "units > 10";
  return SearchSpace({lr, units, kind, flip});
}

std::string problem(const std::string& text) {
  try {
    read_point_table(text, "t.csv", space());
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("rows of a table are points, whatever wrote it") {
  for (const std::string header : {"number,lr,units,kind,flip,loss",
                                   "number,param.lr,param.units,"
                                   "param.kind,param.flip,loss",
                                   "number,params_lr,params_units,"
                                   "params_kind,params_flip,loss"}) {
    const auto rows = read_point_table(
        header + "\n1,0.01,20,\"a, b\",True,0.5\r\n\n2,1,3.0,0.50,,0.25\n",
        "t.csv", space());
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].point == Point{{"lr", 0.01},
                                 {"units", int64_t{20}},
                                 {"kind", std::string("a, b")},
                                 {"flip", true}});
    CHECK(rows[0].problem.empty());
    CHECK(rows[0].line == 2);
    CHECK(rows[0].others.at("loss") == "0.5");
    CHECK(rows[1].line == 4);
    CHECK(rows[1].problem.empty());
    CHECK(rows[1].point.at("kind") == Value(0.5));
    CHECK_FALSE(rows[1].point.contains("flip"));
  }
}

TEST_CASE("a parameter may be called as a column of dtune export is") {
  const auto rows = read_point_table(
      "trial,kind,param.lr,param.units,param.kind\n1,search,0.1,3,c\n", "t.csv",
      space());
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].problem.empty());
  CHECK(rows[0].point.at("kind") == Value(std::string("c")));
  CHECK(rows[0].others.at("kind") == "search");
}

TEST_CASE("steps that other programs added up are values of the lattice") {
  Parameter drop;
  drop.name = "drop";
  drop.high = 0.5;
  drop.quantum = 0.1;
  const auto rows = read_point_table(
      "drop\n0.30000000000000004\n0.1\n0.5000000000000001\n0.3001\nnan\n",
      "t.csv", SearchSpace({drop}));
  REQUIRE(rows.size() == 5);
  CHECK(rows[0].point.at("drop") == Value(0.3));
  CHECK(rows[1].point.at("drop") == Value(0.1));
  CHECK(rows[2].point.at("drop") == Value(0.5));
  for (size_t i = 0; i < 3; ++i) CHECK(rows[i].problem.empty());
  CHECK(rows[3].problem ==
        "space.drop: 0.3001 is not 0 + k 0.1 (the nearest is 0.3)");
  CHECK_FALSE(rows[4].problem.empty());
}

TEST_CASE("a row that is not a point says why, the others count") {
  const auto rows = read_point_table(
      "lr,units,kind\n0.01,3,c\n7,3,c\n0.1,x,c\n0.1,,c\n", "t.csv", space());
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].problem.empty());
  CHECK(rows[1].problem.starts_with("space.lr: "));
  CHECK(rows[2].problem == "space.units: 'x' is not one of its values");
  CHECK(rows[3].problem == "space.units: has no value");
}

TEST_CASE("a file that is not a table of points is named with its line") {
  CHECK(problem("") == "t.csv:1:1: is empty: it has no header line");
  CHECK(problem("lr,kind\n0.1,c\n") ==
        "t.csv:1:1: no column is called 'units' (or param.units, "
        "params_units): every parameter of space: needs one (it has lr, "
        "kind)");
  CHECK(problem("lr;units;kind\n0.1;3;c\n")
            .ends_with("(commas separate the columns, not semicolons or "
                       "tabs)"));
  for (const std::string twice : {"param.lr,params_lr", "lr,lr"}) {
    CHECK(problem(twice + ",units,kind\n") ==
          "t.csv:1:1: there are two columns of 'lr' (remove one)");
  }
  CHECK(problem("lr,units,kind\n0.1,3,c\n0.1,3\n") ==
        "t.csv:3:1: has 2 cells, but the header has 3");
  CHECK(problem("lr,units,kind\n0.1,3,\"c\n") ==
        "t.csv:2:1: a quote is not closed");
}
