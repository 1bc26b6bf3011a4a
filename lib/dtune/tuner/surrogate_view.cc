// SurrogateModel's predictions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "dtune/base/error.h"
#include "dtune/surrogate/conv_lstm.h"
#include "dtune/tuner/surrogate_model.h"
#include "dtune/tuner/surrogate_state.h"

namespace dtune {
namespace {

double log_sum_exp(double a, double b) {
  const double top = std::max(a, b);
  if (std::isinf(top)) return top;
  return top + std::log(std::exp(a - top) + std::exp(b - top));
}

// Of the bands that people see: trials that look promising are the ones that
// are asked about, and disappoint. Measured on 17 tasks: 90% bands hold 59% of
// what follows without it, 81% with 2.5, 86 to 88% with 3.5. Decisions compare
// chances and need none.
constexpr double kBandWidening = 3.5;

// Of more queries than these a first look at few observations says which are
// looked at by all.
constexpr size_t kMostQueries = 400;
constexpr size_t kExact = 60;
constexpr size_t kSketched = 64;

// Where the chances are taken whose sum is the expected gain.
constexpr double kGains[] = {.003, .01, .03, .06, .1, .15,
                             .2,   .3,  .4,  .55, .75};

// Members below this share change nothing.
constexpr double kNegligible = 1e-3;

}  // namespace

std::vector<Observed> SurrogateModel::all_observed() const {
  std::vector<Observed> all = observed_;
  all.insert(all.end(), latest_.begin(), latest_.end());
  return all;
}

// Where nothing is feasible yet, anything may lead.
size_t SurrogateModel::leader_of(const std::vector<Observed>& all,
                                 std::span<const double> means) const {
  const bool any = std::any_of(all.begin(), all.end(), [&](const Observed& o) {
    return !infeasible_.contains(o.trial);
  });
  size_t best = all.size();
  for (size_t i = 0; i < all.size(); ++i) {
    if (any && infeasible_.contains(all[i].trial)) continue;
    if (best == all.size() || means[i] > means[best]) best = i;
  }
  return best;
}

SurrogateView& SurrogateModel::view() {
  if (view_) return *view_;
  auto view = std::make_unique<SurrogateView>();
  double worst = HUGE_VAL;
  for (const Observed& o : observed_) {
    worst = std::min(worst, o.observation.value);
  }
  std::vector<ProcessObservation> broken;
  for (ProcessInput& at : inputs(broken_)) {
    broken.push_back({std::move(at), worst});
  }
  const std::vector<Observed> all = all_observed();
  const std::vector<ProcessObservation> latest = observations_of(latest_);
  for (const FreezeThawProcess& process : processes_) {
    view->processes.push_back(process.copy());
    FreezeThawProcess& copy = view->processes.back();
    copy.observe(latest);
    const std::vector<double> means = copy.observed_means();
    const std::span<const double> own =
        std::span(means).subspan(warm_.size(), all.size());
    const size_t best = leader_of(all, own);
    view->best.push_back(own[best]);
    view->leaders.push_back({all[best].trial, all[best].step});
    copy.observe(broken);
    copy.fantasize(inputs(pending_));
  }
  view_ = std::move(view);
  return *view_;
}

double SurrogateModel::ambition_of(double gain) const {
  DTUNE_CHECK(!empty());
  double best = -HUGE_VAL;
  for (const Observed& o : observed_) best = std::max(best, o.value);
  const double room = std::max(1 - scale_.to_model(best), 1e-9);
  return std::clamp(gain * scale_.slope() / room, 0.0, 1.0);
}

// By the process that the most trusted member is built on.
Leader SurrogateModel::leader() {
  DTUNE_CHECK(!empty());
  const std::vector<MemberTrust> weights = trust();
  const auto most = std::max_element(
      weights.begin(), weights.end(),
      [](const auto& a, const auto& b) { return a.weight < b.weight; });
  const auto member = static_cast<size_t>(most - weights.begin());
  return view().leaders[members_[member].process];
}

std::shared_ptr<const NetworkAnswer> SurrogateModel::ask_network(
    const FreezeThawProcess& process, std::span<const Observed> observed,
    std::span<const ModelQuery> pending) const {
  // Coordinates that the cube does not know are the best trial's.
  const auto best = std::max_element(
      observed.begin(), observed.end(), [](const auto& a, const auto& b) {
        return a.observation.value < b.observation.value;
      });
  const std::vector<double> rest = best->observation.input.unit;
  FeatureGrid grid(parts_.prior->axes(), [&](const CubePoint& point) {
    return cube_map_.unit(point, rest);
  });
  std::vector<Correction> corrections = parts_.network->correct(
      grid_features(process, grid, observations_of(observed), inputs(pending)));
  return std::make_shared<const NetworkAnswer>(
      NetworkAnswer{std::move(grid), std::move(corrections)});
}

const NetworkAnswer& SurrogateModel::seen_answer() {
  if (!answer_) answer_ = ask_network(processes_.front(), observed_, {});
  return *answer_;
}

const NetworkAnswer& SurrogateModel::view_answer() {
  SurrogateView& now = view();
  if (pending_.empty() && broken_.empty() && latest_.empty()) {
    return seen_answer();
  }
  if (!now.answer) {
    now.answer = ask_network(now.processes.front(), all_observed(), pending_);
  }
  return *now.answer;
}

// The chance to pass an ambition, as a summand with a weight.
struct SurrogateModel::Threshold {
  double ambition;
  double log_weight;
};

std::vector<double> SurrogateModel::log_chance(
    std::span<const ModelQuery> queries, double ambition) {
  const Threshold one = {ambition, 0};
  return of_the_most_promising(queries, {&one, 1});
}

std::vector<double> SurrogateModel::log_gain(
    std::span<const ModelQuery> queries) {
  std::vector<Threshold> sum;
  double last = 0;
  for (const double ambition : kGains) {
    sum.push_back({ambition, std::log(ambition - last)});
    last = ambition;
  }
  return of_the_most_promising(queries, sum);
}

std::vector<double> SurrogateModel::of_the_most_promising(
    std::span<const ModelQuery> queries, std::span<const Threshold> sum) {
  DTUNE_CHECK(!empty());
  const std::vector<ProcessInput> at = inputs(queries);
  if (at.size() <= kMostQueries) {
    return log_sum_by(view().processes, at, sum);
  }
  std::vector<double> result = log_sum_by(sketches(), at, sum);
  std::vector<size_t> order(at.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return result[a] > result[b]; });
  std::vector<ProcessInput> chosen;
  for (size_t i = 0; i < kExact; ++i) chosen.push_back(at[order[i]]);
  const std::vector<double> exact = log_sum_by(view().processes, chosen, sum);
  const double least = *std::min_element(exact.begin(), exact.end());
  for (size_t i = 0; i < order.size(); ++i) {
    double& chance = result[order[i]];
    chance = i < kExact ? exact[i] : std::min(chance, least);
  }
  return result;
}

const std::vector<FreezeThawProcess>& SurrogateModel::sketches() {
  SurrogateView& now = view();
  if (now.sketches.empty()) {
    for (const FreezeThawProcess& process : processes_) {
      now.sketches.push_back(process.thinned(kSketched));
    }
  }
  return now.sketches;
}

std::vector<double> SurrogateModel::log_sum_by(
    const std::vector<FreezeThawProcess>& processes,
    std::span<const ProcessInput> at, std::span<const Threshold> sum) {
  const SurrogateView& now = view();
  const std::vector<MemberTrust> weights = trust();
  std::vector<std::vector<Gaussian>> predicted(processes.size());
  std::vector<double> result(at.size(), -HUGE_VAL);
  for (size_t k = 0; k < members_.size(); ++k) {
    if (weights[k].weight < kNegligible) continue;
    const size_t p = members_[k].process;
    const FreezeThawProcess& process = processes[p];
    if (predicted[p].empty()) predicted[p] = process.predict(at);
    const double best = process.warp().inverse(now.best[p]);
    const double room = std::max(1 - best, 0.0);
    const double log_weight = std::log(weights[k].weight);
    std::vector<double> passed;
    passed.reserve(sum.size());
    for (const Threshold& t : sum) {
      passed.push_back(process.warp()(best + t.ambition * room));
    }
    for (size_t j = 0; j < at.size(); ++j) {
      const Gaussian& g = predicted[p][j];
      const double deviation = std::sqrt(g.variance);
      const Correction correction =
          members_[k].corrected ? view_answer().at(at[j]) : kHeavyTails;
      for (size_t i = 0; i < sum.size(); ++i) {
        const double z = (passed[i] - g.mean) / deviation;
        result[j] = log_sum_exp(result[j], log_weight + sum[i].log_weight +
                                               log_upper_tail(correction, z));
      }
    }
  }
  return result;
}

// A report's distribution, member by member.
struct SurrogateModel::Mixture {
  struct Part {
    double weight;
    Warp warp;
    double mean;  // of z, noise included
    double deviation;
    Correction correction;
  };
  std::vector<Part> parts;

  double cumulative(double y) const {
    double sum = 0;
    for (const Part& p : parts) {
      const double z = (p.warp(y) - p.mean) / p.deviation;
      sum += p.weight * (1 - std::exp(log_upper_tail(p.correction, z)));
    }
    return std::clamp(sum, 0.0, 1.0);
  }
};

SurrogateModel::Mixture SurrogateModel::report_at(const ModelQuery& query) {
  const ProcessInput at = input(query.unit, query.step,
                                query.trial > 0 ? query.trial : kNewTraining);
  SurrogateView& now = view();
  const std::vector<MemberTrust> weights = trust();
  Mixture mixture;
  for (size_t k = 0; k < members_.size(); ++k) {
    if (weights[k].weight < kNegligible) continue;
    const FreezeThawProcess& process = now.processes[members_[k].process];
    const Gaussian g = process.predict({&at, 1}).front();
    const double deviation =
        kBandWidening *
        std::sqrt(g.variance + process.noise() * process.noise());
    mixture.parts.push_back(
        {weights[k].weight, process.warp(), g.mean, deviation,
         members_[k].corrected ? view_answer().at(at) : kHeavyTails});
  }
  return mixture;
}

double SurrogateModel::cumulative(const ModelQuery& query, double value) {
  return report_at(query).cumulative(scale_.to_model(value));
}

Prediction SurrogateModel::predict(const ModelQuery& query) {
  DTUNE_CHECK(!empty());
  const Mixture mixture = report_at(query);
  const Warp& warp = view().processes.front().warp();
  const auto quantile = [&](double p) {
    double low = warp.top - 30 * warp.scale;
    double high = warp.top + 3 * warp.scale;
    for (int i = 0; i < 40; ++i) {
      const double middle = (low + high) / 2;
      (mixture.cumulative(middle) < p ? low : high) = middle;
    }
    const double value = scale_.to_metric((low + high) / 2);
    // A share, such as an accuracy, stays one.
    return scale_.identity() ? std::clamp(value, 0.0, 1.0) : value;
  };
  const double sign = objective_.goal == Goal::maximize ? 1 : -1;
  Prediction p = {query.step, sign * quantile(0.5), sign * quantile(0.05),
                  sign * quantile(0.95)};
  if (p.low > p.high) std::swap(p.low, p.high);
  return p;
}

}  // namespace dtune
