// One line per event, for logs and pipes: `12.3s trial 7 step 3/12
// val_accuracy=0.8912 (best 0.9010) lr=0.031 l2=1e-05 dropout=0.2`. Every line
// starts with the seconds since the study's start or resume. Without line end;
// control characters of recipes and programs are stripped.
#pragma once

#include <string>

#include "dtune/report/facts.h"

namespace dtune {

std::string started_line(const Study& study, double elapsed_seconds);
std::string report_line(const Study& study, const Trial& trial,
                        const StepReport& report, double elapsed_seconds);
std::string state_line(const Study& study, const Trial& trial,
                       double elapsed_seconds);
// What a trial did while it held its slots, once it has left them: the last
// report, and the state where that is not the usual pause.
std::string turn_line(const Study& study, const Trial& trial,
                      double elapsed_seconds);
std::string notice_line(const std::string& text, double elapsed_seconds);
std::string finished_line(const Study& study, double elapsed_seconds);

// The same as JSON objects: {"event": "report", "seconds": 12.3, ...}.
//   started   study, id, seed, horizon
//   report    trial, attempt, step, horizon, metrics, params, best,
//   step_seconds state     trial, attempt, state, reason, detail, step, node,
//   slot notice    text finished  study, state, best (trial id or null)
std::string started_json(const Study& study, double elapsed_seconds);
std::string report_json(const Study& study, const Trial& trial,
                        const StepReport& report, double elapsed_seconds);
std::string state_json(const Study& study, const Trial& trial,
                       double elapsed_seconds);
std::string notice_json(const std::string& text, double elapsed_seconds);
std::string finished_json(const Study& study, TrialId best,
                          double elapsed_seconds);

}  // namespace dtune
