#include "dtune/surrogate/learnt_prior.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include <Eigen/Eigenvalues>
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/order_statistic.h"
#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/warp.h"

namespace dtune {
namespace {

using RowMatrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// a b'. All products of large matrices, and all eigenvectors, are of one type:
// Eigen compiles each type's own code, for seconds.
RowMatrix times_transposed(const RowMatrix& a, const RowMatrix& b) {
  return a * b.transpose();
}

Eigen::RowVectorXf times(const Eigen::RowVectorXf& a, const RowMatrix& b) {
  return a * b;
}

using Eigenvectors = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>;

Eigen::RowVectorXf normalised(const RecordedCube& cube, size_t times) {
  const CubeScale scale = CubeScale::of(cube.values, times);
  Eigen::RowVectorXf z(static_cast<Eigen::Index>(cube.values.size()));
  std::transform(cube.values.begin(), cube.values.end(), z.begin(),
                 [&](float y) { return scale.z(y); });
  return z;
}

double context_distance_squared(const float* sample,
                                const CubeContext& context) {
  // Spread of each number over the recorded settings; batch size and width
  // count by their logarithm.
  constexpr double kSpread[kContextSize] = {1.0, 0.8, 0.25, 1.4};
  const std::optional<double> known[kContextSize] = {
      context.batch_size, context.width, context.momentum, context.depth};
  double sum = 0;
  for (int i = 0; i < kContextSize; ++i) {
    if (!known[i]) continue;
    const bool logarithmic = i < 2;
    const double recorded = double{sample[i]};
    const double difference =
        logarithmic ? std::log(std::max(*known[i], 1.0) / recorded)
                    : *known[i] - recorded;
    sum += (difference / kSpread[i]) * (difference / kSpread[i]);
  }
  return sum;
}

// Of the samples that have one and count.
double median_deviation(const std::vector<float>& deviations,
                        const std::vector<float>& weights) {
  std::vector<float> known;
  for (size_t i = 0; i < deviations.size(); ++i) {
    if (deviations[i] > 0 && weights[i] > 0) known.push_back(deviations[i]);
  }
  return known.empty() ? 0 : double{upper_median(std::move(known))};
}

}  // namespace

CubeScale CubeScale::of(const std::vector<float>& values, size_t times) {
  const float top = *std::max_element(values.begin(), values.end());
  return {top, top - median_final(values, times) + 0.02F};
}

float CubeScale::z(float y) const {
  const float x = std::clamp((y - top) / width, -4.0F, 0.0F);
  return static_cast<float>(warp_unit(double{x}));
}

LearntPrior LearntPrior::learn(const CubeAxes& axes,
                               const std::vector<RecordedCube>& cubes,
                               size_t components) {
  if (cubes.size() < 2) {
    throw Error(ErrorKind::data,
                "a prior needs two recorded cubes or more (record some with "
                "`dtune record`)");
  }
  const auto n = static_cast<Eigen::Index>(cubes.size());
  const auto size = static_cast<Eigen::Index>(axes.size());
  LearntPrior prior;
  prior.axes_ = axes;
  prior.components_ = std::min(components, cubes.size());
  RowMatrix samples(n, size);
  for (Eigen::Index i = 0; i < n; ++i) {
    const RecordedCube& cube = cubes[static_cast<size_t>(i)];
    DTUNE_CHECK(cube.values.size() == axes.size());
    samples.row(i) = normalised(cube, axes.time.size());
    prior.tasks_.push_back(cube.task);
    prior.deviations_.push_back(static_cast<float>(cube.training_deviation));
    for (const double number : cube.context) {
      prior.contexts_.push_back(static_cast<float>(number));
    }
  }
  const Eigen::RowVectorXf mean = samples.colwise().mean();
  samples.rowwise() -= mean;
  prior.mean_.assign(mean.data(), mean.data() + size);

  // Principal components from the Gram matrix: n is far below size.
  const Eigenvectors solver(
      times_transposed(samples, samples).cast<double>().eval());
  const auto k = static_cast<Eigen::Index>(prior.components_);
  RowMatrix basis(k, size);
  for (Eigen::Index j = 0; j < k; ++j) {
    basis.row(j) =
        times(solver.eigenvectors().col(n - 1 - j).cast<float>(), samples);
    const float norm = basis.row(j).norm();
    if (norm > 0) basis.row(j) /= norm;
  }
  const RowMatrix coefficients = times_transposed(samples, basis);
  prior.basis_.assign(basis.data(), basis.data() + basis.size());
  prior.coefficients_.assign(coefficients.data(),
                             coefficients.data() + coefficients.size());
  return prior;
}

std::vector<float> LearntPrior::weights(
    const CubeContext& context, std::span<const std::string> leave_out) const {
  constexpr double kBandwidth = 1.2;
  std::map<std::string, double> task_sums;
  std::vector<float> weights(tasks_.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string& task = tasks_[i];
    const bool left_out =
        std::find(leave_out.begin(), leave_out.end(), task) != leave_out.end();
    const double d2 =
        context_distance_squared(&contexts_[i * kContextSize], context);
    const double w =
        left_out ? 0 : std::exp(-d2 / (2 * kBandwidth * kBandwidth)) + 1e-4;
    weights[i] = static_cast<float>(w);
    task_sums[task] += w;
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    const double sum = task_sums[tasks_[i]];
    if (sum > 0) weights[i] /= static_cast<float>(sum);
  }
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0F);
  if (sum <= 0) {
    throw Error(ErrorKind::data,
                "nothing is left of the prior without the tasks named");
  }
  for (float& weight : weights) weight /= sum;
  return weights;
}

CubePrior LearntPrior::condition(const CubeContext& context,
                                 std::span<const std::string> leave_out) const {
  const auto n = static_cast<Eigen::Index>(tasks_.size());
  const auto k = static_cast<Eigen::Index>(components_);
  const auto size = static_cast<Eigen::Index>(axes_.size());
  const std::vector<float> of_samples = this->weights(context, leave_out);
  const Eigen::Map<const Eigen::RowVectorXf> weights(of_samples.data(), n);
  const RowMatrix c = Eigen::Map<const RowMatrix>(coefficients_.data(), n, k);
  const RowMatrix basis = Eigen::Map<const RowMatrix>(basis_.data(), k, size);
  const Eigen::RowVectorXf centre = times(weights, c);
  const RowMatrix spread = (c.rowwise() - centre).transpose();
  const Eigenvectors solver(
      times_transposed(spread * weights.asDiagonal(), spread)
          .cast<double>()
          .eval());
  // Its columns are eigenvectors, each times its deviation.
  const RowMatrix turn =
      (solver.eigenvectors() *
       solver.eigenvalues().cwiseMax(0.0).cwiseSqrt().asDiagonal())
          .cast<float>();
  const RowMatrix loadings =
      times_transposed(basis.transpose(), turn.transpose());  // [size][k]
  const Eigen::RowVectorXf mean =
      Eigen::Map<const Eigen::RowVectorXf>(mean_.data(), size) +
      times(centre, basis);
  return CubePrior(
      axes_, components_, std::vector<float>(mean.data(), mean.data() + size),
      std::vector<float>(loadings.data(), loadings.data() + loadings.size()),
      median_deviation(deviations_, of_samples));
}

}  // namespace dtune
