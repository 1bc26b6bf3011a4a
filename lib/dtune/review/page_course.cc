// How the study went, for the page: the best so far, decisions, events, slots.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "dtune/review/explain.h"
#include "dtune/review/page_parts.h"

namespace dtune {
namespace {

// Seconds of searching after so many reports, which no record has: between
// decisions, which have them, time is taken to pass evenly by report.
class SearchClock {
 public:
  SearchClock(const Study& study, const StudyRecords& records) {
    add(0, 0);
    for (const Decision& decision : records.decisions) {
      add(decision.after_report, decision.searched_seconds);
    }
    add(study.reports, study.searched_seconds);
  }

  double at(int64_t report) const {
    const auto after = std::upper_bound(
        known_.begin(), known_.end(), report,
        [](int64_t wanted, const auto& entry) { return wanted < entry.first; });
    const auto [before_report, before] = *std::prev(after);
    if (after == known_.end()) return before;
    const double part =
        double(report - before_report) / double(after->first - before_report);
    return before + part * (after->second - before);
  }

 private:
  void add(int64_t report, double seconds) {
    if (!known_.empty() && report <= known_.back().first) return;
    known_.emplace_back(report, seconds);
  }

  std::vector<std::pair<int64_t, double>> known_;  // rising
};

// Reports of search trials up to each report of the study.
std::vector<int64_t> search_steps(const Study& study,
                                  const StudyRecords& records) {
  std::vector<int64_t> steps(static_cast<size_t>(study.reports) + 1, 0);
  for (const RecordedReport& recorded : records.reports) {
    const int64_t place = recorded.report.sequence;
    const bool known = place >= 1 && place <= study.reports &&
                       recorded.trial >= 1 &&
                       recorded.trial <= int64_t(study.trials.size());
    if (known && study.trial(recorded.trial).kind == TrialKind::search) {
      steps[static_cast<size_t>(place)] = 1;
    }
  }
  for (size_t i = 1; i < steps.size(); ++i) steps[i] += steps[i - 1];
  return steps;
}

void write_progress(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  const SearchClock clock(study, *reported.records);
  const std::vector<int64_t> steps = search_steps(study, *reported.records);
  json.key("progress");
  json.begin_array();
  const BestHistory history(study, *reported.records);
  for (const auto& change : history.changes()) {
    const auto place = static_cast<size_t>(
        std::clamp<int64_t>(change.sequence, 0, study.reports));
    json.begin_array();
    json.integer(steps[place]);
    json.number(clock.at(change.sequence));
    json.integer(change.best.trial);
    json.number(change.best.value);
    json.end_array();
  }
  json.end_array();
  json.key("spent");
  json.begin_object();
  json.integer("trials", trials_spent(study));
  json.integer("steps", steps.back());
  json.end_object();
}

template <class Records, class Write>
void write_each(const char* name, const Records& records, PageJson& json,
                Write write) {
  json.key(name);
  json.begin_array();
  for (const auto& record : records) write(record);
  json.end_array();
}

void write_decisions(const ReportedStudy& reported, PageJson& json) {
  const std::vector<Decision>& all = reported.records->decisions;
  const BestHistory history(*reported.study, *reported.records);
  const auto column = [&](const char* name, auto write) {
    write_each(name, all, json, write);
  };
  json.key("decisions");
  json.begin_object();
  column("trial", [&](const Decision& d) { json.integer(d.trial); });
  column("action", [&](const Decision& d) { json.text(d.action); });
  column("maker", [&](const Decision& d) { json.text(to_string(d.maker)); });
  column("step", [&](const Decision& d) { json.integer(d.step); });
  column("target", [&](const Decision& d) { json.integer(d.target_step); });
  column("seconds",
         [&](const Decision& d) { json.number(d.searched_seconds); });
  column("why", [&](const Decision& d) { json.text(d.why); });
  column("best", [&](const Decision& d) {
    json.integer(history.at(d.after_report).trial);
  });
  column("best_value", [&](const Decision& d) {
    json.number(history.at(d.after_report).value);
  });
  json.end_object();
}

void write_events(const ReportedStudy& reported, PageJson& json) {
  const std::vector<TrialEvent>& all = reported.records->events;
  const auto column = [&](const char* name, auto write) {
    write_each(name, all, json, write);
  };
  json.key("events");
  json.begin_object();
  column("trial", [&](const TrialEvent& e) { json.integer(e.trial); });
  column("attempt", [&](const TrialEvent& e) { json.integer(e.attempt); });
  column("state",
         [&](const TrialEvent& e) { json.integer(static_cast<int>(e.state)); });
  column("reason", [&](const TrialEvent& e) {
    json.integer(static_cast<int>(e.reason));
  });
  column("at", [&](const TrialEvent& e) {
    json.integer(e.wall_ms - reported.study->created_ms);
  });
  column("detail", [&](const TrialEvent& e) { json.text(e.detail); });
  json.end_object();
}

// "box slot 1" by lane; "" where it is not known.
void write_lanes(const std::vector<SlotTurn>& turns, PageJson& json) {
  std::vector<std::string> lanes;
  for (const SlotTurn& turn : turns) {
    const auto lane = static_cast<size_t>(turn.lane);
    lanes.resize(std::max(lanes.size(), lane + 1));
    if (turn.slot >= 0) {
      lanes[lane] = fmt::format("{}{}slot {}", turn.node,
                                turn.node.empty() ? "" : " ", turn.slot);
    }
  }
  write_each("lanes", lanes, json,
             [&](const std::string& lane) { json.text(lane); });
}

void write_turns(const ReportedStudy& reported, PageJson& json) {
  const int64_t created = reported.study->created_ms;
  const std::vector<SlotTurn> turns =
      slot_turns(reported.records->events, reported.now_ms);
  write_lanes(turns, json);
  write_each("turns", turns, json, [&](const SlotTurn& turn) {
    json.begin_array();
    json.integer(turn.trial);
    json.integer(turn.lane);
    json.integer(turn.start_ms - created);
    json.integer(turn.end_ms - created);
    json.integer(static_cast<int>(turn.state));
    json.integer(turn.resumed ? 1 : 0);
    json.end_array();
  });
}

}  // namespace

void write_course(const ReportedStudy& reported, PageJson& json) {
  write_progress(reported, json);
  write_decisions(reported, json);
  write_events(reported, json);
  write_turns(reported, json);
}

}  // namespace dtune
