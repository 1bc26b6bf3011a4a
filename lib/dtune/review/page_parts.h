// The parts of page_data.h's object, each written as a key and its value.
#pragma once

#include "dtune/review/page_data.h"
#include "dtune/review/page_json.h"

namespace dtune {

void write_verdict(const ReportedStudy& reported, PageJson& json);
void write_trials(const ReportedStudy& reported, PageJson& json);
void write_forecasts(const ReportedStudy& reported, PageJson& json);
void write_importance(const ReportedStudy& reported, PageJson& json);
void write_course(const ReportedStudy& reported, PageJson& json);
void write_beliefs(const ReportedStudy& reported, PageJson& json);

}  // namespace dtune
