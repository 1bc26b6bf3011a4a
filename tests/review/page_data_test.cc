#include "dtune/review/page_data.h"

#include <limits>

#include "../report/sample_study.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/review/page_json.h"
#include "dtune/review/report_page.h"

namespace dtune {
namespace {

using nlohmann::json;

json data_of(const Study& study, const StudyFacts& facts,
             const StudyRecords& records) {
  ReportedStudy reported{.study = &study, .records = &records, .facts = facts};
  return json::parse(page_data(reported));
}

TrialEvent event(TrialId trial, TrialState state, int64_t at) {
  return {.trial = trial, .attempt = 1, .state = state, .wall_ms = at};
}

}  // namespace

TEST_CASE("a page's data has every trial, and null where there is no number") {
  const json data = data_of(test::sample_study(), test::sample_facts(), {});
  const json& trials = data["trials"];
  CHECK(trials["best"] ==
        json::array({0.6, 0.875, 0.1, 0.9125, nullptr, 0.5, 0.914}));
  CHECK(trials["final"] == json::array({0, 0, 0, 0, 0, 0, 1}));
  CHECK(data["curves"][2] == json::array({1, 0.1, 2, nullptr}));
  CHECK(data["curves"][4] == json::array());
  CHECK(trials["values"].size() == 3);
  CHECK(trials["units"][0].size() == 7);
  const auto state = trials["state"][4].get<size_t>();
  CHECK(data["words"]["states"][state] == "failed");
  CHECK(data["verdict"]["best"]["trial"] == 4);
  CHECK(data["verdict"]["best"]["value"] == 0.9125);
  CHECK(data["importance"] == nullptr);  // too few trials
  CHECK(data["predicted"] == json::array());
}

TEST_CASE("a study without any trial has data too") {
  Study study = test::sample_study();
  study.trials.clear();
  study.state = StudyState::running;
  const json data = data_of(study, {}, {});
  CHECK(data["trials"]["state"] == json::array());
  CHECK(data["verdict"]["best"] == nullptr);
  CHECK(data["verdict"]["why_no_best"] == "no trial has a finite val_accuracy");
  CHECK(data["progress"] == json::array());
}

TEST_CASE("a page says which bounds no trial met") {
  Study study = test::sample_study();
  study.state = StudyState::running;
  study.recipe.objective.require = {
      {"val_loss", Comparison::less_equal, 0.01, "<= 0.01", ""}};
  const json data = data_of(study, {}, {});
  CHECK(data["verdict"]["best"] == nullptr);
  CHECK(data["verdict"]["why_no_best"] == why_no_best(study));
  CHECK(why_no_best(study).find("require: val_loss <= 0.01") !=
        std::string::npos);
}

TEST_CASE("the best so far is given over steps and over time") {
  Study study = test::sample_study();
  StudyRecords records;
  int64_t sequence = 0;
  for (Trial& trial : study.trials) {
    for (StepReport& report : trial.curve) {
      report.sequence = ++sequence;
      records.reports.push_back({trial.id, 1, report});
    }
  }
  study.reports = sequence;
  study.searched_seconds = 2.0 * double(sequence);
  const json data = data_of(study, test::sample_facts(), records);
  // Trial 1 once, trial 2 four times (the third is its best), trial 3 twice.
  CHECK(data["progress"][0] == json::array({1, 2, 1, 0.6}));
  CHECK(data["progress"][3] == json::array({4, 8, 2, 0.875}));
  CHECK(data["progress"].back() == json::array({11, 22, 4, 0.9125}));
  // The final training is no part of the search.
  CHECK(data["spent"]["trials"] == 6);
  CHECK(data["spent"]["steps"] == 12);
}

TEST_CASE("turns are put into as many lanes as were busy at once") {
  const std::vector<TrialEvent> events = {
      event(1, TrialState::waiting, 0),  event(1, TrialState::running, 10),
      event(2, TrialState::running, 20), event(1, TrialState::paused, 30),
      event(3, TrialState::running, 40), event(2, TrialState::complete, 50),
      event(1, TrialState::running, 60), event(3, TrialState::cut, 70)};
  const std::vector<SlotTurn> turns = slot_turns(events, 100);
  REQUIRE(turns.size() == 4);
  CHECK(turns[0].lane == 0);
  CHECK(turns[1].lane == 1);
  CHECK(turns[2].lane == 0);  // free again since trial 1 was paused
  CHECK(turns[3].lane == 1);
  CHECK(turns[0].end_ms == 30);
  CHECK(turns[0].state == TrialState::paused);
  CHECK_FALSE(turns[0].resumed);
  CHECK(turns[3].resumed);
  CHECK(turns[3].state == TrialState::running);
  CHECK(turns[3].end_ms == 100);
}

TEST_CASE("a lane is a slot where the records have it") {
  std::vector<TrialEvent> events = {
      event(1, TrialState::running, 10), event(1, TrialState::paused, 20),
      event(2, TrialState::running, 30), event(2, TrialState::paused, 40),
      event(1, TrialState::running, 50)};
  events[0].node = events[4].node = "box";
  events[2].node = "other";
  events[0].slot = events[2].slot = events[4].slot = 3;
  const std::vector<SlotTurn> turns = slot_turns(events, 60);
  REQUIRE(turns.size() == 3);
  CHECK(turns[0].lane == 0);
  CHECK(turns[1].lane == 1);  // another node's slot 3
  CHECK(turns[2].lane == 0);
}

TEST_CASE("texts of a page's data cannot end its script, whatever they hold") {
  PageJson out;
  out.begin_object();
  out.text("name", "</script><!--\xff\"\\\n");
  out.number("nan", std::numeric_limits<double>::quiet_NaN());
  out.number("third", 1.0 / 3);
  out.end_object();
  const std::string text = out.take();
  CHECK(text.find('<') == std::string::npos);
  const json parsed = json::parse(text);
  CHECK(parsed["name"] == "</script><!--\xef\xbf\xbd\"\\\n");
  CHECK(parsed["nan"] == nullptr);
  CHECK(parsed["third"] == 0.333333);
}

TEST_CASE("a page names its style and script in a policy that allows no more") {
  const std::vector<std::string> none;
  const std::string page = report_page(none, "<a & b>");
  CHECK(page.find("default-src 'none'; script-src 'sha256-") !=
        std::string::npos);
  CHECK(page.find("<title>&lt;a &amp; b&gt;</title>") != std::string::npos);
  CHECK(page.size() < 100'000);
  // 32 bytes are 43 letters and one sign that fills.
  const size_t hash = page.find("sha256-") + 7;
  CHECK(page.substr(hash + 43, 2) == "='");
}

}  // namespace dtune
