// JSON, CSV and JUnit: what other programs read.
#include "report/sample_study.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/report/csv.h"
#include "dtune/report/json.h"
#include "dtune/report/lines.h"

namespace dtune {
namespace {

using Json = nlohmann::json;
using test::sample_facts;
using test::sample_study;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Study with_expectations() {
  Study study = sample_study();
  study.recipe.expect = {
      {"val_accuracy", Comparison::greater_equal, 0.92, "v >= \"0.92\" & <b>",
       "r.yaml:3:1"},
      {"test_acuracy", Comparison::greater, 0.9, "", "r.yaml:4:1"},
      {"test_loss", Comparison::less, 0.3, "test_loss < 0.3", "r.yaml:5:1"},
      {"failed_trials", Comparison::less_equal, 2, "failed_trials <= 2", ""}};
  return study;
}

}  // namespace

TEST_CASE("the best trial as JSON has what scripts ask for") {
  const Json json = Json::parse(best_json(sample_study(), sample_facts()));
  CHECK(json.at("trial") == 4);
  CHECK(json.at("params") ==
        Json{{"lr", 0.04}, {"l2", 1e-5}, {"dropout", 0.2}});
  CHECK(json.at("val_accuracy") == 0.914);  // of the final model
  CHECK(json.at("value") == 0.914);         // likewise: of one trial
  CHECK(json.at("metrics").at("val_accuracy") == 0.914);
  CHECK(json.at("final").at("trial") == 7);
  CHECK(json.at("search").at("trial") == 4);
  CHECK(json.at("search").at("metrics").at("val_accuracy") == 0.9125);
  CHECK(json.at("test_accuracy") == 0.9101);
  CHECK(json.at("model") == "fashion.files/model.safetensors");
  CHECK(json.at("step") == 4);
  CHECK(json.at("seed") == 7);
  CHECK(json.at("database") == "fashion.db");
  CHECK(json.at("final_trial") == 7);
}

TEST_CASE("a study without a result is nulls, not missing keys") {
  Study study;
  study.trials.push_back(
      test::sample_trial(1, TrialState::failed, Reason::diverged, {kNan}));
  const Json best = Json::parse(best_json(study, {}));
  CHECK(best.at("trial").is_null());
  CHECK(best.at("value").is_null());
  CHECK(best.at("model").is_null());
  const Json status = Json::parse(status_json(study, {}));
  CHECK(status.at("best").is_null());
  CHECK(status.at("budget").at("trials").is_null());
  CHECK(status.at("list").at(0).at("metric").is_null());
}

TEST_CASE("the status as JSON counts states and shows causes") {
  const Json json = Json::parse(status_json(sample_study(), sample_facts()));
  CHECK(json.at("state") == "finished");
  CHECK(json.at("trials").at("total") == 6);
  CHECK(json.at("trials").at("cut") == 2);
  CHECK(json.at("trials").at("lost") == 0);
  CHECK(json.at("reasons").at("failed") ==
        Json{{"crashed", 1}, {"diverged", 1}});
  CHECK(json.at("failures").size() == 2);
  CHECK(json.at("failures").at(1).at("reason") == "crashed");
  CHECK(json.at("list").size() == 7);
  CHECK(json.at("best").at("trial") == 4);
  CHECK(json.at("final").at("trial") == 7);
  CHECK(json.at("budget").at("seconds") == 600);
}

TEST_CASE("numbers that JSON has no word for are null") {
  const Study study = sample_study();
  const Json json = Json::parse(trial_json(study, study.trial(3), {}));
  CHECK(json.at("curve").at(1).at("metrics").at("val_accuracy").is_null());
  CHECK(json.at("metric") == 0.1);
  CHECK(json.at("last").is_null());
  const Trial& trial = study.trial(3);
  const Json line =
      Json::parse(report_json(study, trial, trial.curve[1], kNan));
  CHECK(line.at("event") == "report");
  CHECK(line.at("seconds").is_null());
  CHECK(line.at("metrics").at("val_accuracy").is_null());
}

TEST_CASE("every JSON document is UTF-8, whatever programs said") {
  Study study = sample_study();
  study.trials[4].detail = "\xff\xfe";
  study.recipe.study = "caf\xe9";
  CHECK_NOTHROW(Json::parse(export_json(study, sample_facts())));
  CHECK_NOTHROW(Json::parse(state_json(study, study.trials[4], 1)));
  CHECK_NOTHROW(Json::parse(notice_json("\xff", 1)));
}

TEST_CASE("expectations pass, fail or name the metric that was meant") {
  const Study study = with_expectations();
  const auto results = evaluate_expectations(study, sample_facts());
  REQUIRE(results.size() == 4);
  CHECK(results[0].outcome == ExpectationOutcome::failed);
  CHECK(results[0].message == "val_accuracy is 0.914, expected >= 0.92");
  CHECK(results[1].outcome == ExpectationOutcome::missing);
  CHECK(results[1].message.find("did you mean 'test_accuracy'?") !=
        std::string::npos);
  CHECK(results[2].outcome == ExpectationOutcome::passed);
  CHECK(results[3].outcome == ExpectationOutcome::passed);
  CHECK_FALSE(all_passed(results));
  CHECK(all_passed({}));
  const Json json = Json::parse(expectations_json(results));
  CHECK(json.at("passed") == false);
  CHECK(json.at("expectations").at(1).at("value").is_null());
  CHECK(expectations_text({results[0], results[2]}, {}) ==
        "failed  r.yaml:3:1: val_accuracy is 0.914, expected >= 0.92\n"
        "ok      test_loss is 0.25, expected < 0.3\n");
}

TEST_CASE("a metric that is not a number meets no expectation") {
  Study study = with_expectations();
  StudyFacts facts = sample_facts();
  facts.result->metrics["val_accuracy"] = kNan;
  const auto results = evaluate_expectations(study, facts);
  CHECK(results[0].outcome == ExpectationOutcome::missing);
}

TEST_CASE("without a final model the incumbent's metrics count") {
  Study study = with_expectations();
  study.recipe.expect[0].bound = 0.9;
  StudyFacts facts = sample_facts();
  facts.result.reset();
  const auto results = evaluate_expectations(study, facts);
  CHECK(results[0].outcome == ExpectationOutcome::passed);
  CHECK(*results[0].value == 0.9125);
}

TEST_CASE("JUnit XML escapes what a recipe says") {
  Study study = with_expectations();
  study.recipe.expect.resize(1);
  study.recipe.study = "a<b>&\x1b\"c'";
  CHECK("\n" + junit_xml(study, evaluate_expectations(study, sample_facts())) ==
        R"(
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="dtune a&lt;b&gt;&amp;c&apos;" tests="2" failures="1" errors="0" skipped="0" time="83.000">
  <testcase classname="dtune.a&lt;b&gt;&amp;c&apos;" name="study" time="83.000"/>
  <testcase classname="dtune.a&lt;b&gt;&amp;c&apos;" name="v &gt;= &quot;0.92&quot; &amp; &lt;b&gt;" time="0">
    <failure type="failed" message="val_accuracy is 0.914, expected &gt;= 0.92">r.yaml:3:1</failure>
  </testcase>
</testsuite>
)");
}

TEST_CASE("a study that did not finish is an error in JUnit XML") {
  Study study = sample_study();
  study.state = StudyState::interrupted;
  const std::string xml = junit_xml(study, {});
  CHECK(xml.find("errors=\"1\"") != std::string::npos);
  CHECK(xml.find("<error message=\"the study is interrupted: 6 trials") !=
        std::string::npos);
}

TEST_CASE("trials and curves as CSV") {
  Study study = sample_study();
  study.trials = {study.trials[2], study.trials[4]};
  study.trials[0].detail = "a \"quoted\", word";
  study.trials[1].point.erase("l2");
  study.trials[1].detail = "";
  CHECK("\n" + trials_csv(study) == R"(
trial,kind,state,reason,detail,attempt,failures,seed,step,seconds,node,slot,created_ms,started_ms,ended_ms,best_step,val_accuracy,param.lr,param.l2,param.dropout
3,search,failed,diverged,"a ""quoted"", word",1,0,1003,2,5,box,0,0,0,0,1,0.1,0.03,1e-05,0.2
5,search,failed,crashed,,1,0,1005,0,0,box,0,0,0,0,,,0.05,,0.2
)");
  CHECK("\n" + curves_csv(study) == R"(
trial,step,seconds,checkpoint_seconds,val_accuracy,val_loss
3,1,2.5,0,0.1,0.9
3,2,2.5,0,,
)");
}

}  // namespace dtune
