#include "dtune/surrogate/synthetic.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Core>
#include <fmt/format.h>

#include "dtune/base/random.h"
#include "dtune/surrogate/synthetic_curve.h"

namespace dtune {
namespace {

constexpr Eigen::Index kInputs = 3;
constexpr Eigen::Index kOutputs = kCurveNumbers;
constexpr int kTableNetworks = 50;
constexpr int kTablePoints = 24;

using FloatMatrix = Eigen::MatrixXf;

FloatMatrix random_matrix(Eigen::Index rows, Eigen::Index columns,
                          double deviation, double kept, Rng& rng) {
  const double scale = deviation / std::sqrt(kept);
  FloatMatrix result(rows, columns);
  for (Eigen::Index i = 0; i < result.size(); ++i) {
    const bool keep = kept >= 1 || rng.uniform() < kept;
    result.data()[i] = keep ? static_cast<float>(scale * rng.normal()) : 0.0F;
  }
  return result;
}

// x: [3][points] in [0, 1]; returns [23][points].
FloatMatrix network_outputs(const FloatMatrix& x, Rng& rng) {
  const auto layers = static_cast<int>(8 + rng.below(8));
  const auto width = static_cast<Eigen::Index>(36 + rng.below(114));
  const double s = rng.uniform(0.089, 0.193);
  constexpr double kKept = 1 - 0.145;
  FloatMatrix h = (x.array() - 0.5F) * std::sqrt(12.0F);
  for (int layer = 0; layer < layers; ++layer) {
    const bool last = layer + 1 == layers;
    const bool hidden = layer > 0 && !last;
    const FloatMatrix w = random_matrix(last ? kOutputs : width, h.rows(), s,
                                        hidden ? kKept : 1, rng);
    const Eigen::VectorXf b = random_matrix(w.rows(), 1, s, 1, rng);
    FloatMatrix next = w * h;
    next.colwise() += b;
    h = last ? next : FloatMatrix(next.array().tanh());
  }
  return h;
}

// What one data set does beside its network.
struct Habits {
  double ridge;       // shift of lr by L2
  double edge;        // of divergence, in lr; above 1.2 there is none
  double edge_slope;  // over L2
  double edge_width;
  double slowing;  // by dropout
  double help;     // of dropout to the end
};

Habits draw_habits(Rng& rng) {
  Habits habits{};
  habits.ridge = rng.uniform(-0.6, 0.6);
  const bool diverges = rng.uniform() < 0.7;
  habits.edge = diverges ? rng.uniform(0.45, 1.05) : 9;
  habits.edge_slope = rng.uniform(-0.3, 0.1);
  habits.edge_width = std::exp(rng.uniform(std::log(0.005), std::log(0.06)));
  habits.slowing = rng.uniform() < 0.7 ? rng.uniform(0.0, 0.8) : 0;
  habits.help = rng.uniform() < 0.4 ? rng.uniform(0.0, 0.4) : 0;
  return habits;
}

double share_of(const std::vector<double>& axis, size_t i) {
  if (axis.back() <= axis.front()) return 0;
  return (axis[i] - axis.front()) / (axis.back() - axis.front());
}

// [3][points] in [0, 1], dropout fastest.
FloatMatrix points_of(const CubeAxes& axes) {
  FloatMatrix points(kInputs, static_cast<Eigen::Index>(axes.voxels()));
  Eigen::Index at = 0;
  for (size_t i = 0; i < axes.log10_lr.size(); ++i) {
    for (size_t j = 0; j < axes.log10_l2.size(); ++j) {
      for (size_t k = 0; k < axes.dropout.size(); ++k) {
        points(0, at) = static_cast<float>(share_of(axes.log10_lr, i));
        points(1, at) = static_cast<float>(share_of(axes.log10_l2, j));
        points(2, at) = static_cast<float>(share_of(axes.dropout, k));
        ++at;
      }
    }
  }
  return points;
}

struct Bounds {
  double start;  // the score of the untrained network
  double top;
};

Bounds draw_bounds(Rng& rng) {
  const double a = rng.uniform();
  const double b = rng.uniform();
  return {std::min(a, b), rng.uniform() < 0.25 ? std::max(a, b) : 1.0};
}

}  // namespace

SyntheticPrior::SyntheticPrior() {
  for (int i = 0; i < kTableNetworks; ++i) {
    Rng rng(mix_seed({hash_text("synthetic ranks"), static_cast<uint64_t>(i)}));
    FloatMatrix x(kInputs, kTablePoints);
    for (float& value : x.reshaped()) value = static_cast<float>(rng.uniform());
    const FloatMatrix y = network_outputs(x, rng);
    ranks_.insert(ranks_.end(), y.data(), y.data() + y.size());
  }
  std::sort(ranks_.begin(), ranks_.end());
}

RecordedCurves SyntheticPrior::draw(const CubeAxes& axes, uint64_t seed) const {
  Rng rng(mix_seed({hash_text("synthetic curves"), seed}));
  const Bounds bounds = draw_bounds(rng);
  const Habits habits = draw_habits(rng);
  const FloatMatrix points = points_of(axes);
  FloatMatrix bent = points;
  bent.row(0).array() +=
      static_cast<float>(habits.ridge) * (points.row(1).array() - 0.5F);
  const FloatMatrix outputs = network_outputs(bent, rng);

  RecordedCurves curves;
  curves.task = fmt::format("synthetic-{}", seed);
  curves.log10_lr = axes.log10_lr;
  curves.log10_l2 = axes.log10_l2;
  curves.dropout = axes.dropout;
  curves.epochs = {1, 2, 3, 4, 5, 7, 9, 11, 13, 17, 22, 27, 34, 40, 46, 51};
  for (Eigen::Index p = 0; p < points.cols(); ++p) {
    std::array<double, kCurveNumbers> uniform{};
    for (Eigen::Index i = 0; i < kOutputs; ++i) {
      const auto rank =
          std::lower_bound(ranks_.begin(), ranks_.end(), outputs(i, p)) -
          ranks_.begin();
      uniform[static_cast<size_t>(i)] =
          (static_cast<double>(rank) + 0.5) /
          (static_cast<double>(ranks_.size()) + 1);
    }
    const double lr = double{points(0, p)};
    const double l2 = double{points(1, p)};
    const double dropout = double{points(2, p)};
    SyntheticCurve curve = curve_of(uniform, bounds.start, bounds.top,
                                    habits.help * 4 * dropout * (1 - dropout));
    const double past =
        (lr - habits.edge - habits.edge_slope * (l2 - 0.5)) / habits.edge_width;
    const double learns = 1 / (1 + std::exp(std::clamp(past, -50.0, 50.0)));
    for (const int epoch : curves.epochs) {
      const double x = epoch / 51.0 * (1 - habits.slowing * dropout * dropout);
      const double y = bounds.start + learns * (curve.at(x) - bounds.start);
      curves.values.push_back(static_cast<float>(std::clamp(y, 0.0, 1.0)));
    }
  }
  return curves;
}

}  // namespace dtune
