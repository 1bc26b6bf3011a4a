#include "dtune/simulate/table_world.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

struct Row {
  Point point;
  std::vector<double> unit;
  std::vector<double> values;  // by step, larger is better
  bool diverged = false;       // after its last value

  double at(int step) const {
    const auto index = static_cast<size_t>(step) - 1;
    if (index < values.size()) return values[index];
    return diverged ? kNoValue : values.back();
  }
};

Row row_of(const Study& study, const Trial& trial) {
  Row row;
  row.point = trial.point;
  row.unit = study.recipe.space.encode(trial.point);
  row.diverged = trial.reason == Reason::diverged;
  for (const StepReport& report : trial.curve) {
    row.values.push_back(
        objective_value(study.recipe.objective, report).value_or(kNoValue));
  }
  return row;
}

CubeContext context_of(const Recipe& recipe) {
  CubeContext context;
  if (recipe.command) return context;
  const auto tuned = [&](const char* key) {
    const auto& all = recipe.space.parameters();
    return std::any_of(all.begin(), all.end(),
                       [&](const Parameter& p) { return p.key == key; });
  };
  if (!tuned("train.batch_size")) {
    context.batch_size = recipe.train.batch_size;
  }
  if (!tuned("train.momentum") &&
      recipe.train.optimizer == OptimizerKind::sgd) {
    context.momentum = recipe.train.momentum;
  }
  return context;
}

class TableWorld final : public TrialWorld {
 public:
  TableWorld(const Study& study, std::vector<Row> rows)
      : recipe_(study.recipe),
        context_(context_of(study.recipe)),
        rows_(std::move(rows)) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_by_point_.emplace(rows_[i].point, i);
      steps_ = std::max(steps_, static_cast<int>(rows_[i].values.size()));
    }
    measure();
  }

  const std::string& task() const override { return recipe_.study; }
  const CubeContext& context() const override { return context_; }
  const Recipe& recipe() const override { return recipe_; }
  int steps() const override { return steps_; }
  double best() const override { return best_; }
  double median_final() const override { return median_; }

  double value(const Point& point, int step) const override {
    return rows_[rows_by_point_.at(point)].at(step);
  }

  std::optional<Point> settle(const Point& proposal,
                              const Study& study) const override {
    const std::vector<double> unit = recipe_.space.encode(proposal);
    std::set<Point> taken;
    for (const Trial& trial : study.trials) taken.insert(trial.point);
    const Row* nearest = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Row& row : rows_) {
      const double distance = squared_distance(row.unit, unit);
      if (distance < least && !taken.contains(row.point)) {
        least = distance;
        nearest = &row;
      }
    }
    if (nearest == nullptr) return std::nullopt;
    return nearest->point;
  }

 private:
  static double squared_distance(const std::vector<double>& a,
                                 const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  }

  // Values that are not finite count for the best not at all, for the median
  // as the worst ends that there are.
  void measure() {
    best_ = -std::numeric_limits<double>::infinity();
    std::vector<double> ends;
    for (const Row& row : rows_) {
      for (const double value : row.values) {
        if (std::isfinite(value)) best_ = std::max(best_, value);
      }
      if (std::isfinite(row.at(steps_))) ends.push_back(row.at(steps_));
    }
    std::sort(ends.begin(), ends.end());
    const size_t lost = rows_.size() - ends.size();
    const size_t middle = rows_.size() / 2;
    median_ = ends.empty() ? best_ : ends[middle < lost ? 0 : middle - lost];
  }

  Recipe recipe_;
  CubeContext context_;
  std::vector<Row> rows_;
  std::map<Point, size_t> rows_by_point_;
  int steps_ = 0;
  double best_ = 0;
  double median_ = 0;
};

bool has_value(const Row& row) {
  return std::any_of(row.values.begin(), row.values.end(),
                     [](double value) { return std::isfinite(value); });
}

}  // namespace

std::unique_ptr<TrialWorld> make_table_world(const Study& study,
                                             const std::string& where,
                                             TableFacts* facts) {
  std::vector<Row> rows;
  std::set<Point> seen;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search || trial.curve.empty()) continue;
    if (seen.insert(trial.point).second) rows.push_back(row_of(study, trial));
  }
  const auto usable = std::count_if(rows.begin(), rows.end(), has_value);
  if (usable < 2) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: has {} with a finite {}; a simulation needs two at "
                    "least (let the study run on)",
                    where, usable == 0 ? "no trial" : "one trial",
                    study.recipe.objective.metric));
  }
  auto world = std::make_unique<TableWorld>(study, rows);
  if (facts != nullptr) {
    facts->trials = static_cast<int>(rows.size());
    facts->ended_early = static_cast<int>(
        std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
          return std::ssize(row.values) < world->steps();
        }));
  }
  return world;
}

}  // namespace dtune
