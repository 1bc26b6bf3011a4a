#include "dtune/review/curve_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr int kRows = 11;
constexpr int kMargin = 10;  // columns of the scale
constexpr int kWidest = 66;

struct Signs {
  const char* observed;
  const char* mean;
  const char* band;
  const char* axis;
  const char* corner;
  const char* floor;
};

Signs signs_of(bool unicode) {
  if (unicode) {
    return {"\u25cf", "\u2500", "\u2591", "\u2502", "\u2514", "\u2500"};
  }
  return {"*", "-", ":", "|", "+", "-"};
}

class Canvas {
 public:
  Canvas(const CurvePlot& plot, const TextStyle& style)
      : plot_(plot),
        signs_(signs_of(style.unicode)),
        columns_(std::clamp(style.columns - kMargin - 2, 10, kWidest)),
        cells_(kRows, std::vector<const char*>(size_t(columns_), " ")) {
    double low = INFINITY, high = -INFINITY;
    const auto see = [&](double value) {
      low = std::min(low, value);
      high = std::max(high, value);
    };
    for (const auto& [step, value] : plot.observed) see(value);
    for (const Prediction& p : plot.predicted) {
      see(p.low);
      see(p.high);
    }
    if (!(high > low)) {
      const double room = std::max(1e-6, 0.05 * std::abs(high));
      low -= room;
      high += room;
    }
    scale_ = {low, high};
  }

  std::vector<std::string> draw() {
    draw_predictions();
    for (const auto& [step, value] : plot_.observed) {
      put(column_of(step), row_of(value), signs_.observed);
    }
    std::vector<std::string> lines;
    for (int row = 0; row < kRows; ++row) lines.push_back(line_of(row));
    std::string floor = pad_left("", kMargin) + signs_.corner;
    for (int i = 0; i < columns_; ++i) floor += signs_.floor;
    lines.push_back(floor);
    const std::string last = std::to_string(plot_.last_step);
    lines.push_back(pad_left("step 1", kMargin + 2) +
                    pad_left(last, columns_ - 1));
    if (!plot_.predicted.empty()) {
      lines.push_back(
          fmt::format("{}{} observed   {} expected   {} 90% interval",
                      pad_left("", kMargin + 1), signs_.observed, signs_.mean,
                      signs_.band));
    }
    return lines;
  }

 private:
  // Between two predictions the band and the mean go straight.
  void draw_predictions() {
    const auto& predicted = plot_.predicted;
    for (int column = 0; column < columns_ && !predicted.empty(); ++column) {
      const double step = step_at(column);
      if (step < predicted.front().step - 0.5 ||
          step > predicted.back().step + 0.5) {
        continue;
      }
      const Prediction at = between(step);
      for (int row = row_of(at.high); row <= row_of(at.low); ++row) {
        put(column, row, signs_.band);
      }
      put(column, row_of(at.mean), signs_.mean);
    }
  }

  Prediction between(double step) const {
    const auto& all = plot_.predicted;
    const auto after = std::find_if(
        all.begin(), all.end(),
        [step](const Prediction& p) { return double(p.step) >= step; });
    if (after == all.end()) return all.back();
    if (after == all.begin()) return all.front();
    const Prediction& a = *(after - 1);
    const Prediction& b = *after;
    const double share = (step - a.step) / double(b.step - a.step);
    const auto mix = [share](double x, double y) {
      return x + share * (y - x);
    };
    return {a.step, mix(a.mean, b.mean), mix(a.low, b.low),
            mix(a.high, b.high)};
  }

  double step_at(int column) const {
    return 1 +
           double(column) * (plot_.last_step - 1) / std::max(1, columns_ - 1);
  }
  int column_of(int step) const {
    const double share = double(step - 1) / std::max(1, plot_.last_step - 1);
    return static_cast<int>(std::lround(share * (columns_ - 1)));
  }
  int row_of(double value) const {
    const Scale downwards = {scale_.high, scale_.low};
    const double share = downwards.share(value);
    return static_cast<int>(
        std::lround(std::clamp(share, 0.0, 1.0) * (kRows - 1)));
  }
  void put(int column, int row, const char* sign) {
    if (column < 0 || column >= columns_) return;
    cells_[size_t(row)][size_t(column)] = sign;
  }

  std::string line_of(int row) const {
    std::string label;
    if (row % 5 == 0) {
      const double share = double(row) / (kRows - 1);
      label = format_metric((1 - share) * scale_.high + share * scale_.low);
    }
    std::string line = pad_left(label + " ", kMargin) + signs_.axis;
    for (const char* cell : cells_[size_t(row)]) line += cell;
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  const CurvePlot& plot_;
  const Signs signs_;
  const int columns_;
  std::vector<std::vector<const char*>> cells_;
  Scale scale_;
};

}  // namespace

std::vector<std::string> draw_curve(const CurvePlot& plot,
                                    const TextStyle& style) {
  if (plot.observed.empty() && plot.predicted.empty()) return {};
  return Canvas(plot, style).draw();
}

}  // namespace dtune
