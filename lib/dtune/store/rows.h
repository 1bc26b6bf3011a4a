// Records as rows of the tables of schema.h: the SQL that writes and reads each
// and the order of its columns, in one place.
#pragma once

#include <string>
#include <vector>

#include "dtune/store/consistency.h"
#include "dtune/store/sqlite_database.h"
#include "dtune/store/trial_store.h"

namespace dtune {

using Row = std::vector<Cell>;  // as bound to the statement, in order

extern const char* const kPutStudy;
extern const char* const kPutTrial;
extern const char* const kPutReport;
extern const char* const kPutEvent;
extern const char* const kPutDecision;
extern const char* const kPutSession;
extern const char* const kPutRankRound;

Row study_row(const StudyRow& study);
Row trial_row(const Trial& trial);  // all but the curve
Row report_row(TrialId trial, Attempt attempt, const StepReport& report);
Row event_row(const TrialEvent& event);
Row decision_row(const Decision& decision);
Row session_row(const Session& session);
Row rank_round_row(const RankRound& rank);

// Read all rows of a table. Throw Error(store) on words that they do not know,
// Error(data) on numbers out of range and on rows that contradict each other
// (consistency.h).
std::optional<StudyRow> read_study(Database& database);
// Without curves; appends what the rows say of these.
std::vector<Trial> read_trial_rows(Database& database,
                                   std::vector<CurveEnds>& ends);
std::vector<RecordedReport> read_report_rows(Database& database);
std::vector<Trial> read_trials(Database& database, CurvePart part);
std::vector<TrialEvent> read_events(Database& database, TrialId trial);
std::vector<Decision> read_decisions(Database& database);
StudyRecords read_records(Database& database);

}  // namespace dtune
