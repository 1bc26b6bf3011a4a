// What a study's own reports and the recorded studies of others say together
// about points that were not tried and steps that were not trained.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dtune/study/study.h"
#include "dtune/study/tuner.h"
#include "dtune/surrogate/correction.h"
#include "dtune/surrogate/freeze_thaw_process.h"
#include "dtune/tuner/cube_map.h"
#include "dtune/tuner/metric_scale.h"
#include "dtune/tuner/surrogate_state.h"
#include "dtune/tuner/warm_start.h"

namespace dtune {

class ConvLstm;

// What a model is made of.
struct SurrogateParts {
  // Null where nothing recorded fits: the plain process alone.
  std::shared_ptr<const CubePrior> prior;
  std::shared_ptr<const ConvLstm> network;  // null: no correction
  bool learnt = true;                       // the learnt process uncorrected
  bool plain = true;                        // the process without a prior
  // Points that suit most recorded studies, in the units of the cube. The first
  // trials are at the first `opening_points` of them, and at more while slots
  // are free before anything was reported.
  std::vector<CubePoint> opening;
  size_t opening_points = 0;
  // By study of old: what its trials reported.
  std::vector<std::vector<WarmObservation>> warm;
  // Why there is no prior where one might be expected (learnt_part.h); "".
  std::string why_unlearnt;
};

// A point after `step` steps.
struct ModelQuery {
  std::vector<double> unit;
  int step = 1;
  // Whose report predict() and cumulative() are asked for; 0: a new training's.
  TrialId trial = 0;

  bool operator==(const ModelQuery&) const = default;
};

// One way of predicting, and the trust that it has earned.
struct MemberTrust {
  std::string name;   // "convlstm", "learnt", "plain"
  double weight = 0;  // sums to 1 over the members
};

// Steps at which trials are looked at: shares 1/51, 2/51, 4/51, 7/51, 13/51,
// 22/51, 34/51 of the horizon, each a whole step, and the horizon.
std::vector<int> make_ladder(int horizon);

// Brings itself up to date with a study, report by report in the order of their
// arrival, so that what it predicts depends on the study alone and not on when
// it was asked. A report on the ladder counts for what it would be without its
// noise, by the trial's reports before it (curve_smoothing.h). Not thread-safe.
//
// Members: the freeze-thaw process with the learnt prior, the same corrected by
// the ConvLSTM, and the process without a prior. Before a report is taken in,
// each member's predictive density of it counts towards its trust,
//   w_k ~ prior_k exp(sum ln p_k),
// older reports fading (Herbster and Warmuth 1998, doi 10.1023/A:1007424614876,
// call this a fixed share), so a study unlike the recorded ones loses little.
// From 256 reports on the model is made anew, from the reports alone, each time
// that they have grown by an eighth; more than 400 observations are thinned
// out. So to take in a long study at once costs little more than its last
// eighth. The new model is fitted an iteration a report and takes over 26
// reports later, so that no update is long. The network takes part for the
// first observations only (kNetworkObservations in surrogate_trust.cc says why).
//
// Studies of old (`warm_start:`) are seen by every process before any report, a
// step away along a dimension of their own each, whose length the fit finds:
// what they say counts as much as it proves right. They earn no trust, never
// lead, and the network sees them through the process alone.
class SurrogateModel {
 public:
  SurrogateModel(const Recipe& recipe, int horizon, SurrogateParts parts);
  ~SurrogateModel();

  // From the next update() on, the leader also meets these, in place of those
  // of the last call.
  void bound(std::vector<Expectation> bounds) { bounds_ = std::move(bounds); }

  // Takes in what is new. Where a trial was begun anew, starts over.
  void update(const Study& study);

  const std::vector<int>& ladder() const { return ladder_; }
  // The first step of the ladder above `step`; the horizon at least.
  int next_step(int step) const;
  int horizon() const { return ladder_.back(); }
  // The step of the ladder that a trial gets to which is to be judged `ahead`
  // (1 or more) steps after `step`: that or the next one.
  int step_within(int step, int ahead) const;

  // Nothing of this study was observed yet.
  bool empty() const { return taken_in_.empty(); }

  // ln P(metric at the query > best + ambition (1 - best)), by all members, with
  // an ambition in [0, 1); best is the leader's expected value (above 1: P(metric > best)). Points
  // being trained now are taken to end as expected, broken ones (failed,
  // invalid or over their time) as the worst seen. Of more than 400 queries the
  // least promising, by a look at few observations, are only said to be no
  // better than the others. REQUIRES: !empty().
  std::vector<double> log_chance(std::span<const ModelQuery> queries,
                                 double ambition);

  // ln of the expected gain over the best as a share of the room above it, by
  // which decisions compare points and steps: a sum of such chances over
  // ambitions up to 3/4. (A chance of any gain would spend steps on tiny ones.)
  // REQUIRES: !empty().
  std::vector<double> log_gain(std::span<const ModelQuery> queries);

  // The ambition that asks for `gain` (in units of the metric) above the best
  // value reported, at most 1. REQUIRES: !empty().
  double ambition_of(double gain) const;

  // The observed step with the best expected value. REQUIRES: !empty().
  Leader leader();

  // Mean and 90% band of the metric as it would be reported, in its own units.
  // REQUIRES: !empty().
  Prediction predict(const ModelQuery& query);
  // The probability that a report is below `value`, larger being better.
  double cumulative(const ModelQuery& query, double value);

  std::vector<MemberTrust> trust() const;
  // The same by name.
  std::map<std::string, double> weights() const {
    std::map<std::string, double> weights;
    for (const MemberTrust& m : trust()) weights[m.name] = m.weight;
    return weights;
  }
  const std::string& why_unlearnt() const { return parts_.why_unlearnt; }
  // What limits the predictions, in sentences: observations too much alike.
  std::vector<std::string> caveats() const;

  // The point that recorded studies like best; parameters that they do not know
  // are 1/2. Empty without a prior.
  std::optional<std::vector<double>> prior_best() const;

  // Whether proposal i, from 0, is the i-th of the points that open a study, and
  // that point; parameters that the cube does not know are as in `unit`. With 20
  // steps or fewer the first is prior_best()'s.
  bool opens_with(size_t i) const {
    return i < parts_.opening.size() &&
           (i < parts_.opening_points || (i > 0 && empty()));
  }
  std::vector<double> opening_point(size_t i, std::vector<double> unit) const {
    return cube_map_.unit(parts_.opening.at(i), std::move(unit));
  }
  // How many of them open a study whatever was reported.
  size_t opening_points() const { return parts_.opening_points; }
  // It is one of them.
  bool is_opening_point(const std::vector<double>& unit) const;

  // The best points of studies of old, those with the largest mean for this
  // study's horizon first: its first points, before log_chance can say more.
  std::vector<std::vector<double>> warm_best() const;

 private:
  struct Mixture;
  struct Threshold;

  void start_over();
  std::vector<FreezeThawProcess> make_processes() const;
  void make_members(std::vector<FreezeThawProcess> processes);
  void fresh_members();
  void add_warm(const std::vector<std::vector<WarmObservation>>& warm);
  void collect(const Study& study, std::vector<SurrogateReport>& fresh);
  std::vector<double> values_taken_in(size_t count) const;
  void take(const SurrogateReport& report);
  bool rescale(const MetricScale& before);
  void observe(const SurrogateReport& report);
  SurrogateRefit begin_refit(size_t base) const;
  void take_over(SurrogateRefit refit);
  void keep(std::vector<Observed> kept);
  std::vector<ProcessObservation> with_warm(
      const std::vector<Observed>& observed) const;
  void score(const ProcessObservation& observation);
  static void count_towards(SurrogateMember& member, double log_density);
  bool takes_part(const SurrogateMember& member) const;
  void note_unfinished(const Study& study);
  void note_latest(const Study& study);
  std::vector<double> told_apart(std::span<const double> unit) const;
  ProcessInput input(std::span<const double> unit, int step,
                     int64_t training = kNoTraining) const;
  std::vector<ProcessInput> inputs(std::span<const ModelQuery> queries) const;

  // surrogate_view.cc
  SurrogateView& view();
  std::vector<Observed> all_observed() const;
  size_t leader_of(const std::vector<Observed>& all,
                   std::span<const double> means) const;
  const std::vector<FreezeThawProcess>& sketches();
  std::vector<double> of_the_most_promising(std::span<const ModelQuery> queries,
                                            std::span<const Threshold> sum);
  std::vector<double> log_sum_by(
      const std::vector<FreezeThawProcess>& processes,
      std::span<const ProcessInput> at, std::span<const Threshold> sum);
  std::shared_ptr<const NetworkAnswer> ask_network(
      const FreezeThawProcess& process, std::span<const Observed> observed,
      std::span<const ModelQuery> pending) const;
  const NetworkAnswer& seen_answer();
  const NetworkAnswer& view_answer();
  Mixture report_at(const ModelQuery& query);

  const SearchSpace space_;
  const ObjectiveSpec objective_;
  const CubeMap cube_map_;
  const bool open_;         // the trials have no common horizon
  const bool conditional_;  // points may lack parameters
  const SurrogateParts parts_;
  std::vector<int> ladder_;
  std::vector<ProcessDimension> dimensions_;
  std::vector<ProcessObservation> warm_;

  std::vector<FreezeThawProcess> processes_;
  std::vector<int> since_fit_;  // by process
  std::vector<SurrogateMember> members_;
  MetricScale scale_;
  std::vector<SurrogateReport> taken_in_;
  size_t base_ = 0;  // reports that the model was last made anew from
  std::optional<SurrogateRefit> refit_;  // the next one
  std::vector<Observed> observed_;       // thinned out where there are many
  std::vector<int> steps_taken_;         // by trial
  std::vector<uint64_t> seeds_seen_;     // by trial
  std::vector<ModelQuery> pending_;
  // The last reports of trials that are between two steps of the ladder. The
  // view has them until the next step of the ladder takes their place, so that
  // decisions for other slots and the choice of the leader count them; members
  // are neither fitted to them nor trusted by them.
  std::vector<Observed> latest_;
  std::vector<ModelQuery> broken_;
  std::vector<Expectation> bounds_;
  // No step of theirs meets the requirements and the bounds.
  std::set<TrialId> infeasible_;
  // Of what was observed, nothing fantasized; once asked for.
  std::shared_ptr<const NetworkAnswer> answer_;
  std::unique_ptr<SurrogateView> view_;  // of the present state, once asked for
};

}  // namespace dtune
