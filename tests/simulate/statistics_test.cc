#include "dtune/simulate/statistics.h"

#include "simulate/small_world.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/simulate/statistics_report.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::testing;  // NOLINT

namespace {

const std::vector<Contender> kContenders = {
    {"a<b", "x"}, {"c", "y"}, {"d", "z"}};

struct Sample {
  Worlds worlds;
  std::vector<BenchmarkRun> runs;
};

// Two tasks, two seeds, one budget; contender c has the regrets given.
Sample sample(const std::vector<std::vector<double>>& regrets) {
  Sample out;
  out.worlds.push_back(make_cube_world(three_rates("t1")));
  out.worlds.push_back(make_cube_world(three_rates("t2")));
  for (size_t c = 0; c < regrets.size(); ++c) {
    for (size_t i = 0; i < 4; ++i) {
      BenchmarkRun run{c, i / 2, int(i % 2), {}, {}, 0.5};
      run.result.regret = {regrets[c][i]};
      run.result.trials = 3;
      run.result.cuts = c == 0 ? 2 : 0;
      run.result.cuts_wrong = c == 0 && i == 0 ? 1 : 0;
      out.runs.push_back(run);
    }
  }
  return out;
}

std::vector<ContenderStatistics> statistics_of_sample() {
  const Sample s = sample({{1, 2, 3, 4}, {1, 1, 5, 9}, {1, 0, 5, 1}});
  return summarise(s.runs, s.worlds, kContenders, {10});
}

}  // namespace

TEST_CASE("means and medians are over all tasks and seeds") {
  const auto rows = statistics_of_sample();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].budgets[0].budget == 10);
  CHECK(rows[0].budgets[0].mean == 2.5);
  CHECK(rows[0].budgets[0].median == 2.5);
  CHECK(rows[1].budgets[0].median == 3);
  CHECK(rows[0].runs == 4);
  CHECK(rows[0].trials == 3);
  CHECK(rows[0].seconds == 0.5);
  CHECK(rows[0].cuts == 8);
  CHECK(rows[0].cuts_wrong == 1);
}

TEST_CASE("equal regrets share the mean of their places") {
  const auto rows = statistics_of_sample();
  // Places: 2 2 2 / 3 2 1 / 1 2.5 2.5 / 2 3 1.
  CHECK(rows[0].budgets[0].rank == 2);
  CHECK(rows[1].budgets[0].rank == 9.5 / 4);
  CHECK(rows[2].budgets[0].rank == 6.5 / 4);
}

TEST_CASE("the bootstrap's interval holds the mean and grows with the spread") {
  const auto rows = statistics_of_sample();
  for (const ContenderStatistics& row : rows) {
    CHECK(row.budgets[0].low <= row.budgets[0].mean);
    CHECK(row.budgets[0].high >= row.budgets[0].mean);
  }
  const double narrow = rows[0].budgets[0].high - rows[0].budgets[0].low;
  const double wide = rows[1].budgets[0].high - rows[1].budgets[0].low;
  CHECK(narrow > 0);
  CHECK(wide > narrow);
  const Sample same = sample({{2, 2, 2, 2}, {2, 2, 2, 2}, {2, 2, 2, 2}});
  const auto flat = summarise(same.runs, same.worlds, kContenders, {10});
  CHECK(flat[0].budgets[0].low == 2);
  CHECK(flat[0].budgets[0].high == 2);
}

TEST_CASE("differences are those of studies of the same world and seed") {
  const auto rows = statistics_of_sample();
  REQUIRE(rows.size() > 1);
  CHECK(rows[0].budgets[0].difference == 0);
  CHECK(rows[0].budgets[0].difference_high == 0);
  for (const ContenderStatistics& row : rows) {
    const BudgetStatistics& at = row.budgets[0];
    CHECK(at.difference == doctest::Approx(at.mean - rows[0].budgets[0].mean));
    CHECK(at.difference_low <= at.difference);
    CHECK(at.difference_high >= at.difference);
  }
}

TEST_CASE("worlds of different lengths share budgets in trainings") {
  Worlds worlds;
  worlds.push_back(make_cube_world(three_rates()));
  RecordedCurves longer = three_rates();
  longer.epochs = {1, 5};
  worlds.push_back(make_cube_world(longer));
  CHECK(label_budgets({}, worlds).unit == "trainings");
  CHECK(label_budgets({}, worlds).numbers ==
        std::vector<int64_t>{1, 2, 4, 8, 12, 20});
  worlds.pop_back();
  CHECK(label_budgets({}, worlds).unit == "steps");
  CHECK(label_budgets({}, worlds).numbers.front() == 2);
}

TEST_CASE("the JSON has a row for each contender, numbers by budget") {
  const auto json = nlohmann::json::parse(statistics_json(
      statistics_of_sample(),
      {.curves = "c.npz", .tasks = {"t1", "t2"}, .seeds = 2, .seed = 9}));
  REQUIRE(json["rows"].size() == 3);
  const auto& row = json["rows"][0];
  CHECK(row["sampler"] == "a<b");
  CHECK(row["scheduler"] == "x");
  CHECK(row["regret"]["10"] == 2.5);
  CHECK(row["rank"]["10"] == 2);
  CHECK(row["seeds"] == 2);
  CHECK(row["cuts_wrong_share"] == 0.125);
  CHECK(json["rows"][1]["cuts_wrong_share"].is_null());
  CHECK(json["tasks"][1] == "t2");
  CHECK(json["slots"] == 1);
  CHECK(json["seed"] == 9);
}

TEST_CASE("the plot has a line for each contender and needs no other file") {
  const std::string svg = statistics_svg(
      statistics_of_sample(), {.curves = "c.npz", .tasks = {"t1"}, .seeds = 2});
  CHECK(svg.starts_with("<svg xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find("a&lt;b + x") != std::string::npos);
  CHECK(svg.find("href") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  size_t bands = 0;
  for (size_t at = svg.find("<polygon"); at != std::string::npos;
       at = svg.find("<polygon", at + 1)) {
    ++bands;
  }
  CHECK(bands == 3);
}
