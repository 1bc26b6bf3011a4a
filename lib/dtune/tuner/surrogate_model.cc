#include "dtune/tuner/surrogate_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "dtune/base/error.h"
#include "dtune/tuner/surrogate_state.h"

namespace dtune {
namespace {

// Iterations of a fit, and how many observations later the next one is due.
constexpr int kFitIterations = 12;
size_t fit_interval(size_t observations) {
  return observations < 8 ? 1 : std::max<size_t>(4, observations / 10);
}

// The cost grows with the cube of the observations.
constexpr size_t kMostObservations = 400;
constexpr size_t kKeptObservations = 300;

// How far studies of old are from this one, in the units of the cube. A
// residual's length is a half before any fit, so they begin well correlated.
constexpr double kStudyStep = 0.25;

// The network's part: later, choices are finer than its grid, and the learnt
// process alone finds better points (mean regret on 17 tasks after 4, 8, 12, 20
// trainings .086 .022 .013 .009 against .096 .030 .022 .011 with the network to
// the end), however much better the network predicts at large.
constexpr size_t kNetworkObservations = 30;

// Trust: what a report counts, and how fast it is forgotten.
constexpr double kFade = 0.98;
// Of a density that is flat over the metric: one surprise must not end trust.
constexpr double kSurpriseShare = 0.02;

std::vector<ProcessDimension> dimensions_of(const SearchSpace& space) {
  std::vector<ProcessDimension> dimensions;
  for (const Parameter& p : space.parameters()) {
    dimensions.push_back({p.kind == ParameterKind::categorical ||
                              p.kind == ParameterKind::boolean,
                          is_cube_key(p.key)});
  }
  if (dimensions.empty()) dimensions.push_back({});
  return dimensions;
}

}  // namespace

std::vector<int> make_ladder(int horizon) {
  if (horizon == kOpenHorizon) return {horizon};
  constexpr double kShares[] = {1, 2, 4, 7, 13, 22, 34, 51};
  std::vector<int> steps;
  for (const double share : kShares) {
    const int step =
        std::max(1, static_cast<int>(std::lround(share / 51 * horizon)));
    if (steps.empty() || step > steps.back()) steps.push_back(step);
  }
  return steps;
}

SurrogateModel::SurrogateModel(const Recipe& recipe, int horizon,
                               SurrogateParts parts)
    : space_(recipe.space),
      objective_(recipe.objective),
      cube_map_(recipe),
      open_(horizon == kOpenHorizon),
      parts_(std::move(parts)),
      ladder_(make_ladder(horizon)),
      dimensions_(dimensions_of(space_)) {
  DTUNE_CHECK(parts_.plain || parts_.prior != nullptr);
  add_warm(parts_.warm);
  start_over();
}

SurrogateModel::~SurrogateModel() = default;

void SurrogateModel::add_warm(
    const std::vector<std::vector<WarmObservation>>& warm) {
  const size_t before = dimensions_.size();
  for (size_t i = 0; i < warm.size(); ++i) {
    dimensions_.push_back({.categorical = false, .recorded = false});
    for (const WarmObservation& o : warm[i]) {
      ProcessInput at = {o.unit, o.cube, o.time};
      at.unit.resize(before, 0.5);
      at.unit.resize(before + warm.size(), 0);
      at.unit[before + i] = kStudyStep;
      warm_.push_back({std::move(at), o.value});
    }
  }
}

void SurrogateModel::fresh_members() {
  processes_.clear();
  members_.clear();
  const auto add = [&](const char* name, size_t process, bool corrected,
                       double weight) {
    members_.push_back({name, process, corrected, std::log(weight)});
  };
  if (parts_.prior) {
    processes_.emplace_back(parts_.prior, dimensions_);
    if (parts_.network != nullptr) add("convlstm", 0, true, 0.5);
    if (parts_.learnt) add("learnt", 0, false, 0.35);
  }
  if (parts_.plain) {
    processes_.emplace_back(nullptr, dimensions_);
    add("plain", processes_.size() - 1, false, 0.15);
  }
  if (!warm_.empty()) {
    for (FreezeThawProcess& process : processes_) {
      process.replace_observations(warm_);
      process.fit(kFitIterations);
    }
  }
  since_fit_.assign(processes_.size(), 0);
  observed_.clear();
  answer_.reset();
  view_.reset();
}

void SurrogateModel::start_over() {
  fresh_members();
  taken_in_.clear();
  steps_taken_.clear();
  seeds_seen_.clear();
  scale_ = MetricScale();
}

int SurrogateModel::next_step(int step) const {
  const auto next = std::upper_bound(ladder_.begin(), ladder_.end(), step);
  return next == ladder_.end() ? horizon() : *next;
}

int SurrogateModel::step_within(int step, int ahead) const {
  return next_step(std::min(horizon(), step + ahead) - 1);
}

ProcessInput SurrogateModel::input(std::span<const double> unit,
                                   int step) const {
  ProcessInput input;
  input.unit.assign(unit.begin(), unit.end());
  if (input.unit.empty()) input.unit.push_back(0.5);
  input.unit.resize(dimensions_.size(), 0);  // beside studies of old
  input.cube = cube_map_.cube_point(unit);
  const double share = open_ ? 1.0 : double(step) / horizon();
  input.time = std::clamp(share, 1e-9, 1.0);
  return input;
}

std::vector<ProcessInput> SurrogateModel::inputs(
    std::span<const ModelQuery> queries) const {
  std::vector<ProcessInput> result;
  result.reserve(queries.size());
  for (const ModelQuery& q : queries) result.push_back(input(q.unit, q.step));
  return result;
}

void SurrogateModel::update(const Study& study) {
  std::vector<SurrogateReport> fresh;
  collect(study, fresh);
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const SurrogateReport& a, const SurrogateReport& b) {
                     return a.sequence < b.sequence;
                   });
  for (const SurrogateReport& report : fresh) take(report);
  note_unfinished(study);
}

// Reports on the ladder that were not taken in; everything where a trial was
// begun anew.
void SurrogateModel::collect(const Study& study,
                             std::vector<SurrogateReport>& fresh) {
  const size_t n = study.trials.size();
  bool anew = n < steps_taken_.size();
  for (size_t i = 0; i < steps_taken_.size() && !anew; ++i) {
    anew = study.trials[i].steps() < steps_taken_[i] ||
           study.trials[i].seed != seeds_seen_[i];
  }
  if (anew) start_over();
  for (size_t i = steps_taken_.size(); i < n; ++i) {
    steps_taken_.push_back(0);
    seeds_seen_.push_back(study.trials[i].seed);
  }
  for (size_t i = 0; i < n; ++i) {
    const Trial& trial = study.trials[i];
    if (trial.kind != TrialKind::search) continue;
    for (const StepReport& report : trial.curve) {
      if (report.step <= steps_taken_[i]) continue;
      const bool counts =
          open_
              ? report.last
              : std::binary_search(ladder_.begin(), ladder_.end(), report.step);
      const auto value = objective_value(objective_, report);
      if (!counts || !value) continue;
      fresh.push_back({trial.id, report.step, report.sequence, *value,
                       input(trial.unit, report.step)});
    }
    steps_taken_[i] = trial.steps();
  }
}

void SurrogateModel::take(const SurrogateReport& report) {
  taken_in_.push_back(report);
  const size_t n = taken_in_.size();
  // The scale of an unbounded metric is only known by and by: everything is
  // seen anew at the powers of two, where a metric leaves [0, 1] and where it
  // rises far above all before.
  const bool due = scale_.identity() ? n == 1 : (n & (n - 1)) == 0;
  const bool again = due || !scale_.covers(report.value);
  if (!again) {
    observe(report);
    return;
  }
  std::vector<double> values;
  for (const SurrogateReport& r : taken_in_) values.push_back(r.value);
  scale_ = MetricScale(objective_, values);
  fresh_members();
  for (const SurrogateReport& r : taken_in_) observe(r);
}

void SurrogateModel::observe(const SurrogateReport& report) {
  const ProcessObservation observation = {report.input,
                                          scale_.to_model(report.value)};
  if (!observed_.empty()) score(observation);
  answer_.reset();
  observed_.push_back({observation, report.trial, report.step});
  for (size_t k = 0; k < processes_.size(); ++k) {
    processes_[k].observe(observation);
    ++since_fit_[k];
  }
  if (observed_.size() > kMostObservations) thin_out();
  for (size_t k = 0; k < processes_.size(); ++k) {
    if (size_t(since_fit_[k]) < fit_interval(observed_.size())) continue;
    processes_[k].fit(kFitIterations);
    since_fit_[k] = 0;
  }
  view_.reset();
}

// Keeps the last observation of a trial longer than those before it, and better
// ones longer than worse ones.
void SurrogateModel::thin_out() {
  std::vector<size_t> order(observed_.size());
  std::vector<bool> last(observed_.size(), true);
  std::map<TrialId, size_t> latest;
  for (size_t i = 0; i < observed_.size(); ++i) {
    order[i] = i;
    const auto before = latest.find(observed_[i].trial);
    if (before != latest.end()) last[before->second] = false;
    latest[observed_[i].trial] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (last[a] != last[b]) return static_cast<bool>(last[a]);
    return observed_[a].observation.value > observed_[b].observation.value;
  });
  order.resize(kKeptObservations);
  std::sort(order.begin(), order.end());
  std::vector<Observed> kept;
  std::vector<ProcessObservation> observations = warm_;
  for (const size_t i : order) {
    kept.push_back(observed_[i]);
    observations.push_back(observed_[i].observation);
  }
  observed_ = std::move(kept);
  for (FreezeThawProcess& process : processes_) {
    process.replace_observations(observations);
  }
}

void SurrogateModel::score(const ProcessObservation& observation) {
  for (SurrogateMember& member : members_) {
    if (!takes_part(member)) continue;
    const FreezeThawProcess& process = processes_[member.process];
    const Gaussian g = process.predict({&observation.input, 1}).front();
    const double noise = process.noise();
    const double deviation = std::sqrt(g.variance + noise * noise);
    const Correction c =
        member.corrected ? seen_answer().at(observation.input) : kHeavyTails;
    const double z = process.warp()(observation.value);
    const double density = log_density(c, (z - g.mean) / deviation) -
                           std::log(deviation) +
                           process.warp().log_slope(observation.value);
    member.log_weight =
        kFade * member.log_weight +
        std::log((1 - kSurpriseShare) * std::exp(density) + kSurpriseShare);
  }
}

// Without another member the network has nobody to leave the study to.
bool SurrogateModel::takes_part(const SurrogateMember& member) const {
  return !member.corrected || !parts_.learnt ||
         observed_.size() <= kNetworkObservations;
}

std::vector<MemberTrust> SurrogateModel::trust() const {
  double top = -HUGE_VAL;
  for (const SurrogateMember& m : members_) {
    if (takes_part(m)) top = std::max(top, m.log_weight);
  }
  double sum = 0;
  std::vector<MemberTrust> result;
  for (const SurrogateMember& m : members_) {
    result.push_back(
        {m.name, takes_part(m) ? std::exp(m.log_weight - top) : 0.0});
    sum += result.back().weight;
  }
  for (MemberTrust& m : result) m.weight /= sum;
  return result;
}

// Points that slots work on, and points that broke.
void SurrogateModel::note_unfinished(const Study& study) {
  std::vector<ModelQuery> pending;
  std::vector<ModelQuery> broken;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    if (trial.state == TrialState::running ||
        trial.state == TrialState::waiting) {
      pending.push_back({trial.unit, next_step(trial.steps())});
    }
    // Wherever it broke, it will not get to the end.
    if (trial.state == TrialState::failed) {
      broken.push_back({trial.unit, horizon()});
    }
  }
  if (pending != pending_ || broken != broken_) view_.reset();
  pending_ = std::move(pending);
  broken_ = std::move(broken);
}

std::optional<std::vector<double>> SurrogateModel::prior_best() const {
  if (!parts_.prior) return std::nullopt;
  return cube_map_.unit(parts_.prior->best_point(),
                        std::vector<double>(space_.dimensions(), 0.5));
}

std::vector<std::vector<double>> SurrogateModel::warm_best() const {
  std::vector<std::vector<double>> points;
  std::vector<ModelQuery> queries;
  for (const ProcessObservation& o : warm_) {
    const auto end = o.input.unit.begin() + std::ptrdiff_t(space_.dimensions());
    std::vector<double> unit(o.input.unit.begin(), end);
    if (std::find(points.begin(), points.end(), unit) != points.end()) continue;
    queries.push_back({unit, horizon()});
    points.push_back(std::move(unit));
  }
  const std::vector<Gaussian> expected =
      processes_.front().predict(inputs(queries));
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return expected[a].mean > expected[b].mean;
  });
  std::vector<std::vector<double>> result;
  for (const size_t i : order) result.push_back(std::move(points[i]));
  return result;
}

}  // namespace dtune
