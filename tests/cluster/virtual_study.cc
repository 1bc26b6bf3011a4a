#include "cluster/virtual_study.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "store/memory_store.h"

#include "dtune/base/file.h"
#include "dtune/cluster/coordinator.h"
#include "dtune/tuner/factory.h"

namespace dtune {
namespace {

const std::string kStudy = "virtual";

class StopSink final : public ProgressSink {
 public:
  explicit StopSink(const VirtualStudyOptions& options) : options_(options) {}
  void on_report(const Study& study, const Trial& trial,
                 const StepReport& /*report*/) override {
    if (options_.stop && options_.stop(study, trial)) stop = 1;
  }
  std::atomic<int> stop{0};

 private:
  const VirtualStudyOptions& options_;
};

class SlowSampler final : public Sampler {
 public:
  SlowSampler(Sampler& sampler, VirtualCluster& cluster, double seconds)
      : sampler_(sampler), cluster_(cluster), seconds_(seconds) {}
  std::optional<Proposal> propose(const Study& study,
                                  int64_t decision) override {
    cluster_.spend(seconds_);
    return sampler_.propose(study, decision);
  }

 private:
  Sampler& sampler_;
  VirtualCluster& cluster_;
  const double seconds_;
};

bool is_whole(const StudyRecords& records, const Study& study) {
  std::set<std::pair<TrialId, int>> steps;
  std::set<int64_t> places;
  for (const RecordedReport& one : records.reports) {
    steps.emplace(one.trial, one.report.step);
    places.insert(one.report.sequence);
  }
  const auto reported = std::accumulate(
      study.trials.begin(), study.trials.end(), size_t{0},
      [](size_t sum, const Trial& t) { return sum + size_t(t.steps()); });
  return places.size() == records.reports.size() && steps.size() == reported;
}

double fixed_utilisation(const VirtualCluster& cluster, const Study& study,
                         int nodes) {
  std::vector<double> busy(size_t(nodes), 0.0);
  for (const Trial& trial : study.trials) {
    const size_t node = size_t(trial.id - 1) % busy.size();
    for (int step = 0; step < trial.steps(); ++step) {
      busy[node] += cluster.step_seconds(int(node), busy[node]);
    }
  }
  const double longest = *std::max_element(busy.begin(), busy.end());
  return std::accumulate(busy.begin(), busy.end(), 0.0) / (longest * nodes);
}

}  // namespace

VirtualStudyResult run_virtual_study(const VirtualStudyOptions& options) {
  const TemporaryDirectory folder;
  VirtualStudyResult result;
  Study& study = result.study;
  study.id = kStudy;
  study.horizon = options.horizon;
  study.recipe = options.recipe;
  study.recipe.final_training.enabled = false;
  TunerOptions tuner_options;
  if (!options.leave_out.empty()) {
    tuner_options.leave_out = {options.leave_out};
  }
  const Tuner tuner = make_tuner(study.recipe, study.horizon, tuner_options);
  const auto store = test::make_memory_store();
  const auto cluster = std::make_shared<VirtualCluster>(
      options.cluster, kStudy, study.recipe.objective.metric,
      options.objective);
  CoordinatorOptions own;
  own.endpoint = cluster->local_endpoint();
  own.transport = cluster;
  own.checkpoints = folder.path() / "checkpoints";
  own.take_demand = [&](const Demand& demand) { cluster->take_demand(demand); };
  own.ensure_local_agent = [&] { cluster->ensure_agents(); };
  own.agent_timeout = std::chrono::hours(24);
  StopSink sink(options);
  SlowSampler sampler(*tuner.sampler, *cluster, options.proposal);
  result.why = Coordinator(study, *store, sampler, *tuner.scheduler, sink,
                           cluster->clock(), own)
                   .run(sink.stop)
                   .why;
  result.seconds = cluster->now();
  cluster->close();
  result.cluster = cluster->figures();
  const StudyRecords records = store->load_records();
  result.stored = std::ssize(records.reports);
  result.whole = is_whole(records, study);
  for (const Trial& trial : study.trials) result.steps += trial.steps();
  result.fixed_utilisation =
      fixed_utilisation(*cluster, study, options.cluster.nodes);
  return result;
}

}  // namespace dtune
