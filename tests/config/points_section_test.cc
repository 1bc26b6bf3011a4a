#include "dtune/config/points_section.h"

#include <cmath>

#include "config/recipe_fixture.h"

#include "dtune/base/file.h"

namespace dtune {
namespace {

constexpr char kSpace[] =
    "space:\n"
    "  lr: { log: [0.001, 1] }\n"
    "  l2: 0.0001\n"
    "  dropout: { linear: [0, 0.6], prior: 0.2 }\n"
    "  optimizer: { choice: [sgd, adamw], key: train.optimizer }\n"
    "  momentum: { linear: [0.5, 0.9], key: train.momentum, when: \"optimizer "
    "== 'sgd'\" }\n";

std::string with(const std::string& points) { return kSpace + points; }

TEST_CASE("points to try first are read in their order") {
  const Recipe recipe =
      parse(with("points:\n"
                 "  - { lr: 1, dropout: 0, optimizer: adamw }\n"
                 "  - { lr: 0.1, dropout: 0.5, optimizer: sgd, momentum: 0.8 "
                 "}\n"))
          .recipe();
  REQUIRE(recipe.points.size() == 2);
  CHECK(recipe.points[0] == Point{{"lr", 1.0},
                                  {"dropout", 0.0},
                                  {"optimizer", std::string("adamw")}});
  CHECK(recipe.points[1] == Point{{"lr", 0.1},
                                  {"dropout", 0.5},
                                  {"optimizer", std::string("sgd")},
                                  {"momentum", 0.8}});
}

TEST_CASE("what a point leaves out is its prior or its middle") {
  const Recipe recipe = parse(with("points: [{ optimizer: sgd }]\n")).recipe();
  const Point& point = recipe.points.at(0);
  CHECK(*as_number(point.at("dropout")) == doctest::Approx(0.2));
  CHECK(*as_number(point.at("momentum")) == doctest::Approx(0.7));
  CHECK(*as_number(point.at("lr")) == doctest::Approx(std::sqrt(0.001)));
}

TEST_CASE("points survive writing and reading again") {
  const std::string yaml = with("points: [{ lr: 0.02, optimizer: adamw }]\n");
  const RecipeFile file = parse(yaml);
  CHECK(parse(file.resolved_yaml()).recipe().points == file.recipe().points);
  // They belong to the search.
  CHECK(parse(kSpace).search_hash() != file.search_hash());
}

TEST_CASE("points may be the rows of a CSV file") {
  const TemporaryDirectory folder;
  write_file_atomic(folder.path() / "p.csv",
                    "lr,dropout,loss\n0.1,0.25,3\n0.1,0.25,2\n1,0,1\n", false);
  const auto points_of = [&](const std::string& file) {
    return RecipeFile::parse(
               "space: { lr: { log: [0.001, 1] }, l2: 0, dropout: { linear: "
               "[0, 0.5] } }\npoints: " +
                   file,
               "r.yaml", folder.path())
        .recipe()
        .points;
  };
  CHECK(points_of("p.csv") ==
        std::vector<Point>{{{"lr", 0.1}, {"dropout", 0.25}},
                           {{"lr", 1.0}, {"dropout", 0.0}}});
  write_file_atomic(folder.path() / "q.csv", "lr,dropout\n0.1,7\n", false);
  CHECK_THROWS_AS(points_of("q.csv"), RecipeError);
  CHECK_THROWS_AS(points_of("none.csv"), RecipeError);
}

TEST_CASE("a point outside the space is shown at its place") {
  CHECK(problem(with("points: [{ lrr: 0.1 }]")) ==
        "r.yaml:7:12: 'lrr' is not a parameter of the space, did you mean "
        "'lr'?");
  CHECK(problem(with("points: [{ lr: 0.1, optimizer: rms }]")) ==
        "r.yaml:7:32: 'optimizer': 'rms' is not one of sgd, adamw");
  CHECK(problem(with("points:\n  - lr: 0.1\n  - lr: 3\n"))
            .starts_with("r.yaml:9:9: 'lr': "));
  CHECK(problem(with("points: [{ optimizer: adamw, momentum: 0.6 }]")) ==
        "r.yaml:7:30: 'momentum' has a value, but 'optimizer == 'sgd'' does "
        "not hold");
  CHECK(problem(with("points: { lr: 0.1 }"))
            .starts_with("r.yaml:7:9: 'points' must be a list such as"));
  CHECK(problem(with("points: [0.1]"))
            .starts_with("r.yaml:7:10: a point must be a section such as"));
  CHECK(problem(with("points: [{ lr: 0.1 }, { lr: 1.0e-1 }]")) ==
        "r.yaml:7:23: this point is listed twice (remove one)");
}

TEST_CASE("a point that breaks a constraint or trains nothing is refused") {
  CHECK(problem("space: { lr: { log: [0.001, 1] } }\nconstraints: [lr < "
                "0.5]\npoints: [{ lr: 0.7 }]") ==
        "r.yaml:3:10: constraints[0]: 'lr < 0.5' does not hold");
}

}  // namespace
}  // namespace dtune
