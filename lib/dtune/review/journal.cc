#include "dtune/review/journal.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

void check_order_is_known(const StudyRecords& records) {
  const bool known =
      std::all_of(records.decisions.begin(), records.decisions.end(),
                  [](const Decision& d) { return d.after_report >= 0; }) &&
      std::all_of(records.events.begin(), records.events.end(),
                  [](const TrialEvent& e) { return e.after_report >= 0; });
  if (known) return;
  throw Error(ErrorKind::store,
              "the study was begun by an older dtune, which did not keep the "
              "order in which reports came in: its decisions cannot be taken "
              "again (a study that this dtune runs from its start can be "
              "replayed)");
}

// Merges the three sequences by the counts that each record carries.
class Merger {
 public:
  explicit Merger(const StudyRecords& records) : records_(records) {}

  std::vector<JournalItem> merge() {
    while (add_next()) {
    }
    if (report_ < records_.reports.size() || event_ < records_.events.size() ||
        decision_ < records_.decisions.size()) {
      contradiction();
    }
    return std::move(items_);
  }

 private:
  bool add_next() {
    if (event_is_due()) {
      begin_session(records_.events[event_].session);
      items_.push_back({JournalItem::Kind::event, event_++});
    } else if (decision_is_due()) {
      begin_session(records_.decisions[decision_].session);
      items_.push_back({JournalItem::Kind::decision, decision_++});
    } else if (report_is_due()) {
      items_.push_back({JournalItem::Kind::report, report_++});
    } else {
      return false;
    }
    return true;
  }

  bool event_is_due() const {
    if (event_ == records_.events.size()) return false;
    const TrialEvent& event = records_.events[event_];
    return event.after_report == static_cast<int64_t>(report_) &&
           event.after_decision == static_cast<int64_t>(decision_);
  }

  bool decision_is_due() const {
    if (decision_ == records_.decisions.size()) return false;
    const Decision& decision = records_.decisions[decision_];
    return decision.after_report == static_cast<int64_t>(report_) &&
           decision.number == static_cast<int64_t>(decision_) + 1;
  }

  bool report_is_due() const {
    return report_ < records_.reports.size() &&
           records_.reports[report_].report.sequence ==
               static_cast<int64_t>(report_) + 1;
  }

  void begin_session(int64_t number) {
    while (session_ < records_.sessions.size() &&
           records_.sessions[session_].number <= number) {
      items_.push_back({JournalItem::Kind::session, session_++});
    }
  }

  [[noreturn]] void contradiction() const {
    throw Error(
        ErrorKind::data,
        fmt::format("the records of the study contradict each other after "
                    "report {} and decision {} (rows were changed or deleted "
                    "by hand)",
                    report_, decision_));
  }

  const StudyRecords& records_;
  std::vector<JournalItem> items_;
  size_t session_ = 0;
  size_t report_ = 0;
  size_t event_ = 0;
  size_t decision_ = 0;
};

}  // namespace

std::vector<JournalItem> journal_of(const StudyRecords& records) {
  check_order_is_known(records);
  return Merger(records).merge();
}

}  // namespace dtune
