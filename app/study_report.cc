#include "app/study_report.h"

#include <optional>

#include "app/study_loader.h"
#include "app/study_tuner.h"
#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/review/page_data.h"
#include "dtune/review/report_page.h"

namespace dtune {

std::string study_page_data(const std::filesystem::path& database) {
  LoadedStudy loaded = load_study(database, StoreMode::read_only);
  const StudyRecords records = loaded.store->load_records();
  Study& study = loaded.study;
  study.decisions = static_cast<int64_t>(records.decisions.size());
  ReportedStudy reported{.study = &study,
                         .records = &records,
                         .facts = shown_facts(loaded),
                         .now_ms = system_clock().wall_ms()};
  std::optional<ReplayTuner> tuner;
  try {
    tuner = tuner_of(study.recipe, study.horizon);
    reported.tuner = &*tuner;
  } catch (const Error& error) {
    reported.tuner_problem = error.what();
  }
  return page_data(reported);
}

std::string study_report(const std::vector<std::filesystem::path>& databases) {
  std::vector<std::string> studies;
  for (const auto& database : databases) {
    studies.push_back(study_page_data(database));
  }
  const std::string name = databases.front().stem().string();
  const size_t others = databases.size() - 1;
  return report_page(
      studies,
      others == 0 ? name : fmt::format("{} and {} more", name, others));
}

}  // namespace dtune
