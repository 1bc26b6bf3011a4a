#include "dtune/tuner/cube_map.h"

#include <algorithm>
#include <cmath>

#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr const char* kLr = "train.lr";
constexpr const char* kL2 = "train.l2";
constexpr const char* kDropout = "model.dropout";

double log10_of(double value) { return std::log10(std::max(value, 1e-12)); }

size_t nearest(const std::vector<double>& values, double value) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const bool nearer =
        std::abs(values[i] - value) < std::abs(values[best] - value);
    if (nearer) best = i;
  }
  return best;
}

}  // namespace

ParameterRole cube_role(const Parameter& parameter) {
  if (parameter.key == kLr) return ParameterRole::learning_rate;
  if (parameter.key == kL2) return ParameterRole::l2;
  if (parameter.key == kDropout) return ParameterRole::dropout;
  return parameter.role;
}

CubeContext context_of(const Recipe& recipe) {
  CubeContext context;
  if (recipe.command) return context;
  context.batch_size = recipe.train.batch_size;
  if (recipe.train.optimizer == OptimizerKind::sgd) {
    context.momentum = recipe.train.momentum;
  }
  // Written out layers are counted; what an architecture's own width and depth
  // mean for a plain network is not known.
  int depth = 0;
  int width = 0;
  for (const LayerSpec& layer : recipe.model.layers) {
    if (layer.kind != LayerKind::linear && layer.kind != LayerKind::conv) {
      continue;
    }
    ++depth;
    width = std::max(width, layer.channels);
  }
  if (depth > 0 && width > 0) {
    context.depth = depth;
    context.width = width;
  }
  return context;
}

namespace {

// Of a choice that has a word there is no place in the cube.
bool all_numbers(const Parameter& p) {
  return std::all_of(p.choices.begin(), p.choices.end(), [](const Value& v) {
    return !std::holds_alternative<bool>(v) && as_number(v).has_value();
  });
}

// Of a program, a parameter of this name.
bool is_optimizer(const Parameter& p) {
  return p.kind == ParameterKind::categorical &&
         (p.key == "train.optimizer" ||
          (p.key.empty() && p.name == "optimizer"));
}

// Cells beyond any grid are as good as none.
constexpr uint64_t kMostCells = 1000;

}  // namespace

bool is_ordered_choice(const Parameter& parameter) {
  if (parameter.kind != ParameterKind::categorical) return false;
  if (parameter.ordered) return true;
  if (!all_numbers(parameter)) return false;
  std::vector<double> values;
  for (const Value& v : parameter.choices) values.push_back(*as_number(v));
  return std::is_sorted(values.begin(), values.end()) ||
         std::is_sorted(values.rbegin(), values.rend());
}

double CubeMap::on_cube(const Axis& axis, double value) {
  return axis.logarithm ? log10_of(value) : value;
}

CubeMap::CubeMap(const Recipe& recipe)
    : fixed_{log10_of(recipe.train.lr), log10_of(recipe.train.l2),
             recipe.model.dropout},
      optimizer_(recipe.command ? "" : to_string(recipe.train.optimizer)) {
  const std::vector<Parameter>& parameters = recipe.space.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    Axis axis = {i, nullptr, false, p.low, p.high, p.log, {}, {}};
    if (is_optimizer(p)) {
      tuned_optimizer_ = p;
      optimizer_index_ = i;
      continue;
    }
    const ParameterRole role = cube_role(p);
    if (role == ParameterRole::none) continue;
    axis.member = role == ParameterRole::learning_rate ? &CubePoint::log10_lr
                  : role == ParameterRole::l2          ? &CubePoint::log10_l2
                                                       : &CubePoint::dropout;
    axis.logarithm = role != ParameterRole::dropout;
    if (p.kind == ParameterKind::boolean) continue;
    if (p.kind == ParameterKind::categorical && !all_numbers(p)) continue;
    const std::optional<uint64_t> cells = value_count(p);
    for (uint64_t k = 0; cells && *cells <= kMostCells && k < *cells; ++k) {
      axis.middles.push_back(cell_middle(p, k));
      axis.values.push_back(
          on_cube(axis, *as_number(decode_value(p, axis.middles.back()))));
    }
    axes_.push_back(std::move(axis));
  }
}

CubePoint CubeMap::cube_point(std::span<const double> unit) const {
  CubePoint point = fixed_;
  for (const Axis& axis : axes_) {
    const double u = unit[axis.index];
    if (!axis.values.empty()) {
      point.*axis.member = axis.values[nearest(axis.middles, u)];
      continue;
    }
    const double value = axis.log ? axis.low * std::pow(axis.high / axis.low, u)
                                  : axis.low + (axis.high - axis.low) * u;
    point.*axis.member = on_cube(axis, value);
  }
  return as_sgd(point, optimizer_at(unit));
}

std::string CubeMap::optimizer_at(std::span<const double> unit) const {
  if (!tuned_optimizer_) return optimizer_;
  return to_string(decode_value(*tuned_optimizer_, unit[optimizer_index_]));
}

std::vector<double> CubeMap::unit(const CubePoint& in_cube,
                                  std::vector<double> unit) const {
  const CubePoint point = from_sgd(in_cube, optimizer_at(unit));
  for (const Axis& axis : axes_) {
    const double at = point.*axis.member;
    if (!axis.values.empty()) {
      unit[axis.index] = axis.middles[nearest(axis.values, at)];
      continue;
    }
    if (axis.high <= axis.low) continue;
    const double value = std::clamp(axis.logarithm ? std::pow(10.0, at) : at,
                                    axis.low, axis.high);
    unit[axis.index] =
        axis.log ? std::log(value / axis.low) / std::log(axis.high / axis.low)
                 : (value - axis.low) / (axis.high - axis.low);
  }
  return unit;
}

}  // namespace dtune
