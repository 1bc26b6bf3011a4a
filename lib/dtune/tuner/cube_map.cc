#include "dtune/tuner/cube_map.h"

#include <algorithm>
#include <cmath>

namespace dtune {
namespace {

constexpr const char* kLr = "train.lr";
constexpr const char* kL2 = "train.l2";
constexpr const char* kDropout = "model.dropout";

double log10_of(double value) { return std::log10(std::max(value, 1e-12)); }

}  // namespace

bool is_cube_key(const std::string& key) {
  return key == kLr || key == kL2 || key == kDropout;
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

CubeMap::CubeMap(const Recipe& recipe)
    : fixed_{log10_of(recipe.train.lr), log10_of(recipe.train.l2),
             recipe.model.dropout} {
  const std::vector<Parameter>& parameters = recipe.space.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.kind != ParameterKind::real) continue;
    if (p.key == kLr) {
      axes_.push_back({i, &CubePoint::log10_lr, true, p.low, p.high, p.log});
    } else if (p.key == kL2) {
      axes_.push_back({i, &CubePoint::log10_l2, true, p.low, p.high, p.log});
    } else if (p.key == kDropout) {
      axes_.push_back({i, &CubePoint::dropout, false, p.low, p.high, p.log});
    }
  }
}

CubePoint CubeMap::cube_point(std::span<const double> unit) const {
  CubePoint point = fixed_;
  for (const Axis& axis : axes_) {
    const double u = unit[axis.index];
    const double value = axis.log ? axis.low * std::pow(axis.high / axis.low, u)
                                  : axis.low + (axis.high - axis.low) * u;
    point.*axis.member = axis.logarithm ? log10_of(value) : value;
  }
  return point;
}

std::vector<double> CubeMap::unit(const CubePoint& point,
                                  std::vector<double> unit) const {
  for (const Axis& axis : axes_) {
    if (axis.high <= axis.low) continue;
    const double at = point.*axis.member;
    const double value = std::clamp(axis.logarithm ? std::pow(10.0, at) : at,
                                    axis.low, axis.high);
    unit[axis.index] =
        axis.log ? std::log(value / axis.low) / std::log(axis.high / axis.low)
                 : (value - axis.low) / (axis.high - axis.low);
  }
  return unit;
}

}  // namespace dtune
