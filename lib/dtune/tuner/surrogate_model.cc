#include "dtune/tuner/surrogate_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtune/base/random.h"

namespace dtune {
namespace {

// Beyond these the oldest are thinned out: the cost grows with the cube.
constexpr size_t kMostObservations = 400;

constexpr double kFade = 0.98;

// A normal density with a floor: one surprise must not end a member's trust.
double log_density(const Gaussian& g, double noise, double value) {
  const double variance = g.variance + noise * noise;
  const double z2 = (value - g.mean) * (value - g.mean) / variance;
  const double normal =
      std::exp(-0.5 * z2) / std::sqrt(2 * std::numbers::pi * variance);
  constexpr double kOutlierShare = 0.02;  // of a uniform density on [0, 1]
  return std::log((1 - kOutlierShare) * normal + kOutlierShare);
}

// ln of the upper tail of the standard normal distribution.
double log_upper_tail(double z) {
  if (z < 6) return std::log(0.5 * std::erfc(z / std::numbers::sqrt2));
  return -0.5 * z * z - std::log(z) - 0.5 * std::log(2 * std::numbers::pi);
}

double log_sum_exp(double a, double b) {
  const double top = std::max(a, b);
  if (std::isinf(top)) return top;
  return top + std::log(std::exp(a - top) + std::exp(b - top));
}

std::vector<int> make_ladder(int horizon) {
  constexpr double kShares[] = {1, 2, 4, 7, 13, 22, 34, 51};
  std::vector<int> steps;
  for (const double share : kShares) {
    const int step =
        std::max(1, static_cast<int>(std::lround(share / 51 * horizon)));
    if (steps.empty() || step > steps.back()) steps.push_back(step);
  }
  return steps;
}

// What to write into a metric's place where a trial diverged: no better than
// the worst seen.
double value_of(const ObjectiveSpec& objective, const StepReport& report,
                double worst) {
  const auto value = objective_value(objective, report);
  if (!value) return worst;
  const double raw = objective.goal == Goal::maximize ? *value : -*value;
  return model_value(objective, raw);
}

}  // namespace

double model_value(const ObjectiveSpec& objective, double value) {
  const bool is_loss = objective.goal == Goal::minimize && value >= 0;
  if (is_loss) return 1 / (1 + value);
  const double rising = objective.goal == Goal::maximize ? value : -value;
  if (objective.goal == Goal::maximize && rising >= 0 && rising <= 1) {
    return rising;
  }
  return 0.5 + std::atan(rising) / std::numbers::pi;
}

SurrogateModel::SurrogateModel(const Recipe& recipe, int horizon,
                               std::shared_ptr<const CubePrior> prior)
    : space_(recipe.space),
      objective_(recipe.objective),
      horizon_(horizon),
      train_(recipe.train),
      fixed_dropout_(recipe.model.dropout),
      prior_(recipe.command ? nullptr : std::move(prior)),
      ladder_(make_ladder(horizon)),
      members_(fresh_members()) {}

SurrogateModel::~SurrogateModel() = default;

std::vector<SurrogateModel::Member> SurrogateModel::fresh_members() const {
  const size_t d = std::max<size_t>(1, space_.dimensions());
  std::vector<Member> members;
  if (prior_) {
    members.push_back({"learnt", FreezeThawProcess(prior_, d), std::log(0.8)});
  }
  members.push_back(
      {"plain", FreezeThawProcess(nullptr, d), prior_ ? std::log(0.2) : 0.0});
  return members;
}

int SurrogateModel::next_step(int step) const {
  const auto next = std::upper_bound(ladder_.begin(), ladder_.end(), step);
  return next == ladder_.end() ? horizon_ : *next;
}

bool SurrogateModel::on_ladder(int step) const {
  return std::binary_search(ladder_.begin(), ladder_.end(), step);
}

ProcessInput SurrogateModel::input(std::span<const double> unit,
                                   int step) const {
  ProcessInput input;
  input.unit.assign(unit.begin(), unit.end());
  if (input.unit.empty()) input.unit.push_back(0.5);
  input.time = std::clamp(double(step) / horizon_, 1e-9, 1.0);
  double lr = train_.lr;
  double l2 = train_.l2;
  input.cube.dropout = fixed_dropout_;
  for (size_t i = 0; i < unit.size() && prior_; ++i) {
    const Parameter& p = space_.parameters()[i];
    if (p.kind != ParameterKind::real) continue;
    const double value = p.log ? p.low * std::pow(p.high / p.low, unit[i])
                               : p.low + (p.high - p.low) * unit[i];
    if (p.key == "train.lr") lr = value;
    if (p.key == "train.l2") l2 = value;
    if (p.key == "model.dropout") input.cube.dropout = value;
  }
  constexpr double kTiny = 1e-12;
  input.cube.log10_lr = std::log10(std::max(lr, kTiny));
  input.cube.log10_l2 = std::log10(std::max(l2, kTiny));
  return input;
}

void SurrogateModel::update(const Study& study) {
  const size_t n = study.trials.size();
  for (size_t i = 0; i < std::min(n, taken_.size()); ++i) {
    if (study.trials[i].steps() < taken_[i]) {  // begun anew
      members_ = fresh_members();
      taken_.clear();
      reports_ = 0;
      break;
    }
  }
  taken_.resize(n, 0);
  struct Fresh {
    const Trial* trial;
    const StepReport* report;
  };
  std::vector<Fresh> fresh;
  for (size_t i = 0; i < n; ++i) {
    const Trial& trial = study.trials[i];
    if (trial.kind != TrialKind::search) continue;
    for (const StepReport& report : trial.curve) {
      if (report.step > taken_[i]) fresh.push_back({&trial, &report});
    }
    taken_[i] = trial.steps();
  }
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const Fresh& a, const Fresh& b) {
                     return a.report->sequence < b.report->sequence;
                   });
  for (const Fresh& item : fresh) {
    const double value = value_of(objective_, *item.report,
                                  reports_ > 0 ? std::min(worst_, 0.5) : 0);
    best_ = reports_ == 0 ? value : std::max(best_, value);
    worst_ = reports_ == 0 ? value : std::min(worst_, value);
    ++reports_;
    if (!on_ladder(item.report->step)) continue;
    take({input(item.trial->unit, item.report->step), value});
  }
}

void SurrogateModel::take(const ProcessObservation& observation) {
  const std::vector<ProcessInput> inputs = {observation.input};
  for (Member& member : members_) {
    const size_t n = member.process.size();
    if (n >= kMostObservations) continue;
    const Gaussian g = member.process.predict(inputs).front();
    member.log_weight =
        kFade * member.log_weight +
        log_density(g, member.process.noise(), observation.value);
    member.process.observe(observation);
    ++member.since_fit;
    const size_t patience = n < 8 ? 1 : std::max<size_t>(4, n / 10);
    if (size_t(member.since_fit) >= patience) {
      member.process.fit(12);
      member.since_fit = 0;
    }
  }
}

std::vector<MemberTrust> SurrogateModel::trust() const {
  double total = -INFINITY;
  for (const Member& m : members_) total = log_sum_exp(total, m.log_weight);
  std::vector<MemberTrust> result;
  for (const Member& m : members_) {
    result.push_back({m.name, std::exp(m.log_weight - total)});
  }
  return result;
}

std::vector<double> SurrogateModel::log_tail(
    std::span<const ModelQuery> queries, double threshold,
    std::span<const ModelQuery> pending) const {
  std::vector<ProcessInput> inputs;
  inputs.reserve(queries.size());
  for (const ModelQuery& q : queries) inputs.push_back(input(q.unit, q.step));
  const std::vector<MemberTrust> weights = trust();
  std::vector<double> result(queries.size(), -INFINITY);
  for (size_t k = 0; k < members_.size(); ++k) {
    if (weights[k].weight < 1e-3) continue;
    FreezeThawProcess imagined = members_[k].process.copy();
    for (const ModelQuery& q : pending) {
      const ProcessInput at = input(q.unit, q.step);
      imagined.observe({at, imagined.predict({&at, 1}).front().mean});
    }
    const std::vector<Gaussian> g = imagined.predict(inputs);
    for (size_t j = 0; j < queries.size(); ++j) {
      const double z = (threshold - g[j].mean) / std::sqrt(g[j].variance);
      result[j] = log_sum_exp(result[j],
                              std::log(weights[k].weight) + log_upper_tail(z));
    }
  }
  return result;
}

Gaussian SurrogateModel::predict(const ModelQuery& query) const {
  const ProcessInput at = input(query.unit, query.step);
  const std::vector<MemberTrust> weights = trust();
  double mean = 0;
  double square = 0;
  for (size_t k = 0; k < members_.size(); ++k) {
    const Gaussian g = members_[k].process.predict({&at, 1}).front();
    mean += weights[k].weight * g.mean;
    square += weights[k].weight * (g.variance + g.mean * g.mean);
  }
  return {mean, std::max(square - mean * mean, 1e-12)};
}

std::optional<std::vector<double>> SurrogateModel::prior_best() const {
  if (!prior_) return std::nullopt;
  const CubePoint best = prior_->best_point();
  std::vector<double> unit(space_.dimensions(), 0.5);
  for (size_t i = 0; i < unit.size(); ++i) {
    const Parameter& p = space_.parameters()[i];
    if (p.kind != ParameterKind::real) continue;
    double value = 0;
    if (p.key == "train.lr") {
      value = std::pow(10.0, best.log10_lr);
    } else if (p.key == "train.l2") {
      value = std::pow(10.0, best.log10_l2);
    } else if (p.key == "model.dropout") {
      value = best.dropout;
    } else {
      continue;
    }
    const double clamped = std::clamp(value, p.low, p.high);
    unit[i] = p.log ? std::log(clamped / p.low) / std::log(p.high / p.low)
                    : (clamped - p.low) / (p.high - p.low);
  }
  return unit;
}

}  // namespace dtune
