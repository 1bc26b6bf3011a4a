#include "dtune/review/curve_plot.h"

#include <doctest/doctest.h>

namespace dtune {
namespace {

bool contains(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a curve, what is expected and its band are drawn within a width") {
  CurvePlot plot;
  plot.observed = {{1, 0.5}, {2, 0.7}, {3, 0.75}};
  plot.predicted = {{3, 0.75, 0.74, 0.76}, {12, 0.85, 0.7, 0.95}};
  plot.last_step = 12;
  for (const bool unicode : {true, false}) {
    TextStyle style;
    style.unicode = unicode;
    style.columns = 60;
    const auto lines = draw_curve(plot, style);
    REQUIRE(lines.size() == 14);
    for (const std::string& line : lines) CHECK(display_width(line) <= 60);
    CHECK(contains(lines, "0.9500"));
    CHECK(contains(lines, "0.5000"));
    CHECK(contains(lines, unicode ? "\u25cf" : "*"));
    CHECK(contains(lines, unicode ? "\u2591" : ":"));
    CHECK(contains(lines, "observed"));
    CHECK(contains(lines, "12"));
  }
}

TEST_CASE("one value, and none, can be drawn") {
  CurvePlot plot;
  CHECK(draw_curve(plot, {}).empty());
  plot.observed = {{1, 0.0}};
  CHECK(draw_curve(plot, {}).size() == 13);
}

TEST_CASE("the largest numbers can be drawn") {
  CurvePlot plot;
  plot.observed = {{1, 1e308}, {2, -1e308}};
  plot.last_step = 2;
  TextStyle style;
  style.unicode = false;
  const auto lines = draw_curve(plot, style);
  CHECK(contains(lines, "1e+308"));
  CHECK(lines[10].ends_with('*'));
  CHECK_FALSE(contains(lines, "inf"));
}

}  // namespace dtune
