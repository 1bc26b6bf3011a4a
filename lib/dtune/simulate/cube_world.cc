#include "dtune/simulate/cube_world.h"

#include <cmath>
#include <utility>

#include "dtune/base/error.h"

namespace dtune {
namespace {

struct CubeAxis {
  const char* name;
  const char* key;
  double low;
  double high;
  bool log;
};

std::vector<CubeAxis> axes_of(const RecordedCurves& curves) {
  const auto power = [](double log10) { return std::pow(10, log10); };
  return {{"lr", "train.lr", power(curves.log10_lr.front()),
           power(curves.log10_lr.back()), true},
          {"l2", "train.l2", power(curves.log10_l2.front()),
           power(curves.log10_l2.back()), true},
          {"dropout", "model.dropout", curves.dropout.front(),
           curves.dropout.back(), false}};
}

SearchSpace space_of(const RecordedCurves& curves) {
  std::vector<Parameter> parameters;
  for (const CubeAxis& axis : axes_of(curves)) {
    if (axis.low >= axis.high) continue;
    Parameter parameter;
    parameter.name = axis.name;
    parameter.key = axis.key;
    parameter.low = axis.low;
    parameter.high = axis.high;
    parameter.log = axis.log;
    parameters.push_back(parameter);
  }
  return SearchSpace(std::move(parameters));
}

ModelSpec model_of(const CubeContext& context) {
  ModelSpec model;
  // dtune records networks for images; tables of others say their layers.
  if (!context.optimizer.empty()) return model;
  if (!context.width || !context.depth) {
    LayerSpec flatten;
    flatten.kind = LayerKind::flatten;
    model.layers = {flatten};  // no convolution, whatever else
    return model;
  }
  LayerSpec linear;
  linear.kind = LayerKind::linear;
  linear.channels = static_cast<int>(std::lround(*context.width));
  LayerSpec relu;
  LayerSpec dropout;
  dropout.kind = LayerKind::dropout;
  for (long i = 0; i < std::min(std::lround(*context.depth), 1000L); ++i) {
    model.layers.insert(model.layers.end(), {linear, relu, dropout});
  }
  return model;
}

class CubeWorld final : public TrialWorld {
 public:
  explicit CubeWorld(RecordedCurves curves)
      : curves_(std::move(curves)),
        recipe_(cube_recipe(curves_)),
        median_(curves_.median_final()) {
    if (curves_.worth.empty()) curves_.weigh();
    best_ = curves_.best();
  }

  const std::string& task() const override { return curves_.task; }
  const CubeContext& context() const override { return curves_.context; }
  const Recipe& recipe() const override { return recipe_; }
  int steps() const override { return curves_.steps(); }

  std::optional<Point> settle(const Point& proposal,
                              const Study& /*study*/) const override {
    return proposal;
  }

  double value(const Point& point, int step) const override {
    return curves_.value(place_of(point), step);
  }

  double single(const Point& point, int step, uint64_t choice) const override {
    if (curves_.repeats.empty()) return value(point, step);
    return curves_.repeat_value(choice % curves_.repeats.size(),
                                place_of(point), step);
  }

  double judged(const Point& point, int step, uint64_t choice) const override {
    const size_t trainings = curves_.worth.size();
    if (trainings == 0) return value(point, step);
    return curves_.worth_value(choice % trainings, place_of(point), step);
  }

  double best() const override { return best_; }
  double median_final() const override { return median_; }

 private:
  CubePoint place_of(const Point& point) const {
    const auto number = [&](const char* name, double fixed) {
      const auto found = point.find(name);
      return found == point.end() ? fixed
                                  : as_number(found->second).value_or(fixed);
    };
    return {std::log10(number("lr", recipe_.train.lr)),
            std::log10(number("l2", recipe_.train.l2)),
            number("dropout", recipe_.model.dropout)};
  }

  RecordedCurves curves_;
  Recipe recipe_;
  double median_;
  double best_ = 0;
};

}  // namespace

Recipe cube_recipe(const RecordedCurves& curves) {
  Recipe recipe;
  recipe.study = curves.task;
  recipe.space = space_of(curves);
  recipe.train.epochs = curves.steps();
  recipe.train.lr = std::pow(10, curves.log10_lr.front());
  recipe.train.l2 = std::pow(10, curves.log10_l2.front());
  recipe.model = model_of(curves.context);
  recipe.model.dropout = curves.dropout.front();
  if (const auto& size = curves.context.batch_size) {
    recipe.train.batch_size = static_cast<int>(std::lround(*size));
  }
  recipe.train.momentum = curves.context.momentum.value_or(0.9);
  for (const OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    if (to_string(kind) == curves.context.optimizer) {
      recipe.train.optimizer = kind;
    }
  }
  return recipe;
}

std::unique_ptr<TrialWorld> make_cube_world(RecordedCurves curves) {
  DTUNE_CHECK(!curves.values.empty());
  return std::make_unique<CubeWorld>(std::move(curves));
}

}  // namespace dtune
