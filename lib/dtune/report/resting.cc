// Which nodes rest, by what a coordinator has stored.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "dtune/base/clock.h"
#include "dtune/report/facts.h"
#include "dtune/study/node_health.h"

namespace dtune {
namespace {

MonoTime moment(int64_t wall_ms) {
  return MonoTime{std::chrono::milliseconds(wall_ms)};
}

// Reports of all trials in the order in which they came: sequence and trial.
std::vector<std::pair<int64_t, TrialId>> reports_in_order(const Study& study) {
  std::vector<std::pair<int64_t, TrialId>> all;
  for (const Trial& trial : study.trials) {
    for (const StepReport& report : trial.curve) {
      all.emplace_back(report.sequence, trial.id);
    }
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Goes through a session as its coordinator did.
struct HealthReplay {
  NodeHealth health;
  std::map<TrialId, std::string> where;  // a trial's node, now
  std::map<TrialId, int> failures;
  std::set<std::string> nodes;

  void report(TrialId trial) { health.worked(where[trial]); }
  void event(const TrialEvent& event) {
    std::string& node = where[event.trial];
    const bool failed = event.failures > failures[event.trial];
    if (!event.node.empty()) node = event.node;
    if (!node.empty()) nodes.insert(node);
    if (failed) health.failed(node, moment(event.wall_ms));
    failures[event.trial] = event.failures;
  }
};

}  // namespace

std::vector<RestingNode> resting_nodes(const Study& study,
                                       const std::vector<TrialEvent>& events,
                                       int64_t wall_ms) {
  if (events.empty()) return {};
  const auto reports = reports_in_order(study);
  auto next = reports.begin();
  HealthReplay replay;
  for (const TrialEvent& event : events) {
    for (; next != reports.end() && next->first <= event.after_report; ++next) {
      replay.report(next->second);
    }
    replay.event(event);
    // A coordinator begins without a memory of nodes.
    if (event.session != events.back().session) replay.health = NodeHealth();
  }
  for (; next != reports.end(); ++next) replay.report(next->second);
  std::vector<RestingNode> resting;
  for (const auto& [node, record] : replay.health.records()) {
    if (!replay.health.rests(node, moment(wall_ms))) continue;
    resting.push_back(
        {node, record.failures, to_seconds(record.until - moment(wall_ms))});
  }
  if (resting.size() == replay.nodes.size()) resting.clear();
  return resting;
}

}  // namespace dtune
