#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/text.h"
#include "dtune/simulate/statistics_report.h"

namespace dtune {
namespace {

// Of the whole picture and of the frame within it, in pixels.
constexpr double kWidth = 860;
constexpr double kHeight = 500;
constexpr double kLeft = 70;
constexpr double kRight = 600;  // the legend is beyond it
constexpr double kTop = 40;
constexpr double kBottom = 440;

constexpr double kLeastRegret = 1e-4;  // smaller ones are drawn there

// Okabe and Ito's colours, which most colour-blind people can tell apart.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000", "#999933"};
constexpr std::array kDashes = {"", "7 4", "2 3"};

// A logarithmic axis between two places of the picture.
struct LogAxis {
  double low;   // log10
  double high;  // log10, above low
  double from;
  double to;
  double place(double value) const {
    return from + (std::log10(value) - low) / (high - low) * (to - from);
  }
};

double drawn(double regret) { return std::max(regret, kLeastRegret); }

class Picture {
 public:
  Picture(const std::vector<ContenderStatistics>& rows,
          const BenchmarkFacts& facts)
      : rows_(rows), facts_(facts), x_(budget_axis()), y_(regret_axis()) {}

  std::string draw() {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
        "height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
        "fill=\"#ffffff\"/>\n",
        kWidth, kHeight);
    draw_axes();
    for (size_t i = 0; i < rows_.size(); ++i) draw_band(i);
    for (size_t i = 0; i < rows_.size(); ++i) draw_line(i);
    return svg_ + "</svg>\n";
  }

 private:
  LogAxis budget_axis() const {
    const auto& budgets = rows_.front().budgets;
    const double low = std::log10(double(budgets.front().budget));
    const double high = std::log10(double(budgets.back().budget));
    if (high > low) return {low, high, kLeft + 15, kRight - 15};
    return {low - 0.5, low + 0.5, kLeft, kRight};
  }

  LogAxis regret_axis() const {
    double low = 1;
    double high = kLeastRegret;
    for (const ContenderStatistics& row : rows_) {
      for (const BudgetStatistics& at : row.budgets) {
        low = std::min(low, drawn(at.low));
        high = std::max(high, drawn(at.high));
      }
    }
    const double bottom = std::log10(low) - 0.05;
    return {bottom, std::max(std::log10(high) + 0.05, bottom + 0.5), kBottom,
            kTop};
  }

  void text(double x, double y, const char* anchor, const std::string& words) {
    svg_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
        anchor, escape_markup(words));
  }

  void grid_line(double x1, double y1, double x2, double y2) {
    svg_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
        "stroke=\"#dddddd\"/>\n",
        x1, y1, x2, y2);
  }

  void draw_axes() {
    for (const BudgetStatistics& at : rows_.front().budgets) {
      const double x = x_.place(double(at.budget));
      grid_line(x, kTop, x, kBottom);
      text(x, kBottom + 18, "middle", std::to_string(at.budget));
    }
    for (int decade = -4; decade <= 9; ++decade) {
      for (const int digit : {1, 2, 5}) {
        const double value = digit * std::pow(10, decade);
        const double y = y_.place(value);
        if (y > kBottom || y < kTop) continue;
        grid_line(kLeft, y, kRight, y);
        text(kLeft - 8, y + 4, "end", fmt::format("{:g}", value));
      }
    }
    svg_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" "
        "stroke=\"#666666\"/>\n",
        kLeft, kTop, kRight - kLeft, kBottom - kTop);
    text((kLeft + kRight) / 2, kBottom + 40, "middle",
         "training steps spent in all");
    text(kLeft, kTop - 14, "start", title());
  }

  std::string title() const {
    return fmt::format(
        "mean regret and the middle 90% of its bootstrap: {} tasks, {} seeds, "
        "{} {}{}",
        facts_.tasks.size(), facts_.seeds, facts_.slots,
        facts_.slots == 1 ? "slot" : "slots",
        facts_.noise > 0 ? fmt::format(", noise {:g}", facts_.noise) : "");
  }

  static const char* colour(size_t i) { return kColours[i % kColours.size()]; }
  static const char* dash(size_t i) {
    return kDashes[i / kColours.size() % kDashes.size()];
  }

  void draw_band(size_t i) {
    std::string points;
    const auto& budgets = rows_[i].budgets;
    const auto add = [&](const BudgetStatistics& at, double regret) {
      points += fmt::format("{:.1f},{:.1f} ", x_.place(double(at.budget)),
                            y_.place(drawn(regret)));
    };
    for (const BudgetStatistics& at : budgets) add(at, at.low);
    for (auto at = budgets.rbegin(); at != budgets.rend(); ++at) {
      add(*at, at->high);
    }
    svg_ += fmt::format(
        "<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"0.10\"/>\n", points,
        colour(i));
  }

  void draw_line(size_t i) {
    std::string points;
    std::string dots;
    for (const BudgetStatistics& at : rows_[i].budgets) {
      const double x = x_.place(double(at.budget));
      const double y = y_.place(drawn(at.mean));
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y,
          colour(i));
    }
    svg_ += polyline(points, i) + dots;
    const double y = kTop + 10 + 20 * double(i);
    svg_ += polyline(
        fmt::format("{0},{2} {1},{2}", kRight + 20, kRight + 50, y), i);
    const Contender& contender = rows_[i].contender;
    text(kRight + 58, y + 4, "start",
         contender.sampler + " + " + contender.scheduler);
  }

  static std::string polyline(const std::string& points, size_t i) {
    return fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"2\" stroke-dasharray=\"{}\"/>\n",
        points, colour(i), dash(i));
  }

  const std::vector<ContenderStatistics>& rows_;
  const BenchmarkFacts& facts_;
  const LogAxis x_;
  const LogAxis y_;
  std::string svg_;
};

}  // namespace

std::string statistics_svg(const std::vector<ContenderStatistics>& rows,
                           const BenchmarkFacts& facts) {
  return Picture(rows, facts).draw();
}

}  // namespace dtune
