#include "dtune/tuner/surrogate_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/tuner/curve_smoothing.h"
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

// From so many reports on, a model is made anew each time that they have grown
// by an eighth, from the reports alone: a resumed study begins with the last
// time that this was due. It is not fitted in between. The fit takes an
// iteration a report, so the new model takes over after its iterations.
constexpr size_t kFirstBase = 256;
constexpr int kBaseIterations = 25;
constexpr size_t kRefitReports = kBaseIterations + 1;

// The largest number of reports up to `reports` at which that is due; 0: none.
size_t last_base(size_t reports) {
  size_t base = 0;
  for (size_t next = kFirstBase; next <= reports; next += next / 8) base = next;
  return base;
}

// The number of reports that a model is made from which takes over by then.
size_t base_at(size_t reports) {
  return reports < kRefitReports ? 0 : last_base(reports - kRefitReports);
}

Observed observed_as(const SurrogateReport& report, const MetricScale& scale) {
  return {{report.input, scale.to_model(report.value)},
          report.trial,
          report.step,
          report.value};
}

// Before so many reports a metric's scale is too little known for what was
// fitted under another one to be of use.
constexpr size_t kSettled = 32;
// A scale that changes by more is another metric.
constexpr double kLargestRescale = 1e6;

// How far studies of old are from this one, in the units of the cube. A
// residual's length is a half before any fit, so they begin well correlated.
constexpr double kStudyStep = 0.25;

// The number of a training of a study of old, apart from this study's own.
int64_t warm_training(size_t study, TrialId trial) {
  return (static_cast<int64_t>(study + 1) << 32) + trial;
}

// Added noise below it is no more than what any process has.
constexpr double kNotableJitter = 1e-8;

// The trial itself is to blame: wherever it broke, it gets to no end.
bool is_broken(const Trial& trial) {
  return trial.state == TrialState::failed ||
         trial.state == TrialState::invalid ||
         trial.state == TrialState::timed_out;
}

// Broken points cost as much as observations; more are thinned out evenly.
constexpr size_t kMostBroken = 50;

// So do last reports between two steps of the ladder; of more the best count.
constexpr size_t kMostLatest = 50;

}  // namespace

SurrogateModel::SurrogateModel(const Recipe& recipe, int horizon,
                               SurrogateParts parts)
    : space_(recipe.space),
      objective_(recipe.objective),
      cube_map_(recipe),
      open_(horizon == kOpenHorizon),
      conditional_(
          std::any_of(space_.parameters().begin(), space_.parameters().end(),
                      [](const Parameter& p) { return !p.when.empty(); })),
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
      ProcessInput at = {told_apart(o.unit), o.cube, o.time,
                         warm_training(i, o.trial)};
      at.unit.resize(before, 0.5);
      at.unit.resize(before + warm.size(), 0);
      at.unit[before + i] = kStudyStep;
      warm_.push_back({std::move(at), o.value});
    }
  }
}

// Learnt (with a prior), plain; they have seen nothing.
std::vector<FreezeThawProcess> SurrogateModel::make_processes() const {
  std::vector<FreezeThawProcess> processes;
  if (parts_.prior) processes.emplace_back(parts_.prior, dimensions_);
  if (parts_.plain) processes.emplace_back(nullptr, dimensions_);
  return processes;
}

// Members that trust nothing that was reported.
void SurrogateModel::make_members(std::vector<FreezeThawProcess> processes) {
  processes_ = std::move(processes);
  members_.clear();
  const auto add = [&](const char* name, size_t process, bool corrected,
                       double weight) {
    members_.push_back({name, process, corrected, std::log(weight)});
  };
  if (parts_.prior) {
    if (parts_.network != nullptr) add("convlstm", 0, true, 0.5);
    if (parts_.learnt) add("learnt", 0, false, 0.35);
  }
  if (parts_.plain) add("plain", processes_.size() - 1, false, 0.15);
  since_fit_.assign(processes_.size(), 0);
  observed_.clear();
  answer_.reset();
  view_.reset();
}

void SurrogateModel::fresh_members() {
  make_members(make_processes());
  if (warm_.empty()) return;
  for (FreezeThawProcess& process : processes_) {
    process.replace_observations(warm_);
    process.fit(kFitIterations);
  }
}

void SurrogateModel::start_over() {
  fresh_members();
  taken_in_.clear();
  base_ = 0;
  refit_.reset();
  steps_taken_.clear();
  seeds_seen_.clear();
  scale_ = MetricScale();
}

void SurrogateModel::update(const Study& study) {
  std::vector<SurrogateReport> fresh;
  collect(study, fresh);
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const SurrogateReport& a, const SurrogateReport& b) {
                     return a.sequence < b.sequence;
                   });
  size_t next = taken_in_.size();
  taken_in_.insert(taken_in_.end(), fresh.begin(), fresh.end());
  const size_t base = base_at(taken_in_.size());
  if (base > base_) {
    if (!refit_ || refit_->base != base) refit_ = begin_refit(base);
    take_over(*std::exchange(refit_, std::nullopt));
    next = base;
  }
  const std::vector<SurrogateReport> rest(
      taken_in_.begin() + std::ptrdiff_t(next), taken_in_.end());
  taken_in_.resize(next);
  for (const SurrogateReport& report : rest) take(report);
  note_unfinished(study);
  note_latest(study);
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
      if (!counts || !objective_value(objective_, report)) continue;
      fresh.push_back({trial.id, report.step, report.sequence,
                       smoothed_objective(objective_, trial, report.step),
                       input(trial.unit, report.step, trial.id)});
    }
    steps_taken_[i] = trial.steps();
  }
}

// Of the first `count` reports.
std::vector<double> SurrogateModel::values_taken_in(size_t count) const {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(taken_in_[i].value);
  return values;
}

void SurrogateModel::take(const SurrogateReport& report) {
  taken_in_.push_back(report);
  const size_t n = taken_in_.size();
  if (refit_) refit_->step();
  if (n == last_base(n)) refit_ = begin_refit(n);
  // The scale of an unbounded metric is only known by and by: it is chosen anew
  // at the powers of two, where a metric leaves [0, 1] and where it rises far
  // above all before.
  const bool due = scale_.identity() ? n == 1 : (n & (n - 1)) == 0;
  if (!due && scale_.covers(report.value)) {
    observe(report);
    return;
  }
  const MetricScale before = scale_;
  scale_ = MetricScale(objective_, values_taken_in(n));
  if (n > kSettled && rescale(before)) {
    observe(report);
    return;
  }
  fresh_members();
  for (const SurrogateReport& r : taken_in_) observe(r);
}

// What was observed and fitted under another scale, in units of the present
// one; false where the two have too little in common.
bool SurrogateModel::rescale(const MetricScale& before) {
  const double factor = scale_.slope() / before.slope();
  const double offset = scale_.offset() - factor * before.offset();
  if (!(factor > 1 / kLargestRescale && factor < kLargestRescale &&
        std::abs(offset) < kLargestRescale)) {
    return false;
  }
  std::vector<double> values;
  for (const ProcessObservation& o : warm_) values.push_back(o.value);
  for (Observed& o : observed_) {
    o.observation.value = scale_.to_model(o.value);
    values.push_back(o.observation.value);
  }
  for (FreezeThawProcess& process : processes_) {
    process.rescale(offset, factor, values);
  }
  answer_.reset();
  return true;
}

void SurrogateModel::observe(const SurrogateReport& report) {
  const Observed fresh = observed_as(report, scale_);
  if (!observed_.empty()) score(fresh.observation);
  answer_.reset();
  observed_.push_back(fresh);
  for (size_t k = 0; k < processes_.size(); ++k) {
    processes_[k].observe(fresh.observation);
    ++since_fit_[k];
  }
  view_.reset();
  if (observed_.size() > kMostObservations) {
    keep(thinned_out(std::move(observed_)));
  }
  if (taken_in_.size() >= kFirstBase) return;
  for (size_t k = 0; k < processes_.size(); ++k) {
    if (size_t(since_fit_[k]) < fit_interval(observed_.size())) continue;
    processes_[k].fit(kFitIterations);
    since_fit_[k] = 0;
  }
}

// Of the first `base` reports, whatever was made of them before.
SurrogateRefit SurrogateModel::begin_refit(size_t base) const {
  SurrogateRefit refit;
  refit.base = base;
  refit.scale = MetricScale(objective_, values_taken_in(base));
  for (size_t i = 0; i < base; ++i) {
    refit.observed.push_back(observed_as(taken_in_[i], refit.scale));
  }
  refit.observed = thinned_out(std::move(refit.observed));
  refit.processes = make_processes();
  const std::vector<ProcessObservation> seen = with_warm(refit.observed);
  for (FreezeThawProcess& process : refit.processes) {
    process.replace_observations(seen);
    refit.fits.push_back(process.begin_fit(kBaseIterations));
  }
  return refit;
}

// Ends the fit where there are iterations left.
void SurrogateModel::take_over(SurrogateRefit refit) {
  for (size_t k = 0; k < refit.processes.size(); ++k) {
    while (refit.fits[k].step()) {
    }
    refit.processes[k].adopt(refit.fits[k]);
  }
  base_ = refit.base;
  scale_ = refit.scale;
  make_members(std::move(refit.processes));
  observed_ = std::move(refit.observed);
  for (SurrogateMember& member : members_) {
    const FreezeThawProcess& process = processes_[member.process];
    const auto surprises = process.surprises();
    for (size_t i = 0; i < observed_.size(); ++i) {
      const auto& [deviations, deviation] = surprises[warm_.size() + i];
      count_towards(
          member, log_density(kHeavyTails, deviations) - std::log(deviation) +
                      process.warp().log_slope(observed_[i].observation.value));
    }
  }
}

void SurrogateModel::keep(std::vector<Observed> kept) {
  observed_ = std::move(kept);
  const std::vector<ProcessObservation> seen = with_warm(observed_);
  for (FreezeThawProcess& process : processes_) {
    process.replace_observations(seen);
  }
}

// What processes have seen: the warm start, then these.
std::vector<ProcessObservation> SurrogateModel::with_warm(
    const std::vector<Observed>& observed) const {
  std::vector<ProcessObservation> seen = warm_;
  const std::vector<ProcessObservation> own = observations_of(observed);
  seen.insert(seen.end(), own.begin(), own.end());
  return seen;
}

std::vector<std::string> SurrogateModel::caveats() const {
  std::vector<std::string> lines;
  for (const SurrogateMember& member : members_) {
    if (member.corrected) continue;
    const FreezeThawProcess& process = processes_[member.process];
    if (process.given_up()) {
      lines.push_back(fmt::format(
          "{}: its covariance is not finite; it predicts as it did before any "
          "report",
          member.name));
    } else if (process.regularised() > kNotableJitter) {
      lines.push_back(fmt::format(
          "{}: observations are too much alike; {:.0e} of the variance was "
          "added as noise",
          member.name, process.regularised()));
    }
  }
  return lines;
}

// Points that slots work on, points that broke, and trials that are infeasible.
void SurrogateModel::note_unfinished(const Study& study) {
  std::vector<ModelQuery> pending;
  std::vector<ModelQuery> broken;
  std::set<TrialId> infeasible;
  ObjectiveSpec objective = objective_;
  objective.require.insert(objective.require.end(), bounds_.begin(),
                           bounds_.end());
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    if (trial.state == TrialState::running ||
        trial.state == TrialState::waiting) {
      pending.push_back({trial.unit, next_step(trial.steps())});
    }
    if (is_broken(trial)) broken.push_back({trial.unit, horizon()});
    if (!objective.require.empty() && !trial.curve.empty() &&
        best_report(objective, trial) == nullptr) {
      infeasible.insert(trial.id);
    }
  }
  if (broken.size() > kMostBroken) {
    for (size_t i = 0; i < kMostBroken; ++i) {
      broken[i] = broken[i * broken.size() / kMostBroken];
    }
    broken.resize(kMostBroken);
  }
  if (pending != pending_ || broken != broken_ || infeasible != infeasible_) {
    view_.reset();
  }
  pending_ = std::move(pending);
  broken_ = std::move(broken);
  infeasible_ = std::move(infeasible);
}

void SurrogateModel::note_latest(const Study& study) {
  if (open_ || empty()) return;
  std::vector<Observed> latest;
  for (const Trial& trial : study.trials) {
    if (trial.kind != TrialKind::search) continue;
    const int step = trial.steps();
    if (std::binary_search(ladder_.begin(), ladder_.end(), step)) continue;
    const auto value = last_value(objective_, trial);
    if (!value || !scale_.covers(*value) || !has_results(study, trial))
      continue;
    latest.push_back(observed_as({trial.id, step, trial.curve.back().sequence,
                                  smoothed_objective(objective_, trial, step),
                                  input(trial.unit, step, trial.id)},
                                 scale_));
  }
  if (latest.size() > kMostLatest) {
    std::stable_sort(
        latest.begin(), latest.end(),
        [](const Observed& a, const Observed& b) { return a.value > b.value; });
    latest.resize(kMostLatest);
  }
  const auto is_same = [](const Observed& a, const Observed& b) {
    return a.trial == b.trial && a.step == b.step;
  };
  if (!std::equal(latest.begin(), latest.end(), latest_.begin(), latest_.end(),
                  is_same)) {
    view_.reset();
  }
  latest_ = std::move(latest);
}

}  // namespace dtune
