#include "dtune/review/replay.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/review/explain.h"
#include "dtune/review/journal.h"

namespace dtune {
namespace {

// Starts trials up to step 1, cuts those below 0.5, takes others to step 2.
class Rule final : public Scheduler {
 public:
  explicit Rule(double bound) : bound_(bound) {}

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override {
    Directive directive;
    auto proposal = sampler.propose(study, decision);
    if (!may_start || !proposal) return directive;
    directive.kind = Directive::Kind::start;
    directive.point = proposal->point;
    directive.target_step = 1;
    return directive;
  }
  Verdict judge(const Study& study, const Trial& trial, bool) override {
    Verdict verdict;
    verdict.target_step = 2;
    if (*last_value(study.recipe.objective, trial) < bound_) {
      verdict.kind = Verdict::Kind::cut;
    }
    return verdict;
  }
  std::vector<std::string> describe_plan(const Recipe&, int) const override {
    return {};
  }
  std::vector<std::string> explain(const Study&) const override {
    return {"trusts its bound"};
  }
  std::optional<Prediction> predict(const Study&, const Trial&,
                                    int step) const override {
    return Prediction{step, 0.5, 0.4, 0.6};
  }

 private:
  double bound_;
};

class Counter final : public Sampler {
 public:
  std::optional<Proposal> propose(const Study&, int64_t decision) override {
    return Proposal{{{"x", decision}}, "the decision's number"};
  }
};

ReplayOptions options(double bound = 0.5) {
  ReplayOptions made;
  made.parse_recipe = [](const std::string&) { return Recipe{}; };
  made.make_tuner = [bound](const Recipe&, int) {
    return ReplayTuner{std::make_unique<Counter>(),
                       std::make_unique<Rule>(bound)};
  };
  return made;
}

// Trial 1 starts, reports 0.4 and is cut; trial 2 starts, reports 0.9 and is
// taken further.
StudyRecords records() {
  StudyRecords made;
  made.row.emplace();
  made.row->horizon = 3;
  made.sessions.push_back({1, "", 0, 0, 0, 1});
  for (int64_t id = 1; id <= 2; ++id) {
    Trial trial;
    trial.id = id;
    trial.point = {{"x", id == 1 ? int64_t{1} : int64_t{3}}};
    made.trials.push_back(trial);
    StepReport report;
    report.step = 1;
    report.sequence = id;
    report.metrics["val_accuracy"] = id == 1 ? 0.4 : 0.9;
    made.reports.push_back({id, 1, report});
  }
  const auto event = [&](TrialId trial, TrialState state, int64_t reports,
                         int64_t decisions) {
    made.events.push_back(
        {trial, 1, state, Reason::none, "", 0, reports, decisions, 1, 0});
  };
  const auto decision = [&](TrialId trial, DecisionMaker maker,
                            const char* action, int target, int64_t reports) {
    Decision one;
    one.number = static_cast<int64_t>(made.decisions.size()) + 1;
    one.trial = trial;
    one.action = action;
    one.maker = maker;
    one.target_step = target;
    one.after_report = reports;
    one.session = 1;
    made.decisions.push_back(one);
  };
  event(1, TrialState::waiting, 0, 0);
  decision(1, DecisionMaker::next, "start", 1, 0);
  event(1, TrialState::running, 0, 1);
  decision(1, DecisionMaker::judge, "cut", 1, 1);
  event(1, TrialState::cut, 1, 2);
  event(2, TrialState::waiting, 1, 2);
  decision(2, DecisionMaker::next, "start", 1, 1);
  event(2, TrialState::running, 1, 3);
  decision(2, DecisionMaker::judge, "extend", 2, 2);
  return made;
}

}  // namespace

TEST_CASE("a journal merges sessions, reports, events and decisions") {
  std::string order;
  for (const JournalItem& item : journal_of(records())) {
    order += "sred"[static_cast<int>(item.kind)];
  }
  CHECK(order == "sederdeederd");
}

TEST_CASE("what a rule decided it decides again") {
  const ReplayResult result = replay(records(), options());
  CHECK_FALSE(result.difference.has_value());
  CHECK(result.decisions == 4);
  CHECK(result.asked == 2);
  CHECK(result.judged == 2);
}

TEST_CASE("another rule decides otherwise: the first difference is reported") {
  const ReplayResult result = replay(records(), options(0.3));
  REQUIRE(result.difference);
  CHECK(result.difference->decision == 2);
  CHECK(result.difference->recorded.action == "cut");
  CHECK(result.difference->taken.action == "extend");
  CHECK(result.difference->taken.target_step == 2);
}

TEST_CASE("a decision that changed nothing is compared, too") {
  StudyRecords changed = records();
  changed.decisions.pop_back();  // as if trial 2 had just gone on
  const ReplayResult result = replay(changed, options());
  REQUIRE(result.difference);
  CHECK(result.difference->recorded.action == "go on");
  CHECK(result.difference->taken.action == "extend");
}

TEST_CASE("a granted budget of trials binds the replay as it bound the run") {
  StudyRecords changed = records();
  changed.sessions[0].budget_trials = 1;
  const ReplayResult result = replay(changed, options());
  REQUIRE(result.difference);
  CHECK(result.difference->decision == 3);
  CHECK(result.difference->taken.action == "wait");
}

TEST_CASE("an empty study has nothing to differ in") {
  StudyRecords empty;
  CHECK(replay(empty, options()).decisions == 0);
}

TEST_CASE("records that contradict each other are refused") {
  StudyRecords changed = records();
  SUBCASE("a trial without a row") { changed.trials.pop_back(); }
  SUBCASE("a report of a trial that is not there yet") {
    changed.reports[0].trial = 2;
  }
  SUBCASE("a step that was passed over") { changed.reports[0].report.step = 3; }
  SUBCASE("a gap in the reports") { changed.reports[1].report.sequence = 4; }
  SUBCASE("an older dtune's") { changed.events[2].after_report = -1; }
  CHECK_THROWS_AS(replay(changed, options()), Error);
}

TEST_CASE(
    "an explanation says which part decided what, and what was best then") {
  const StudyRecords all = records();
  Study study;
  study.horizon = 3;
  study.trials = all.trials;
  for (const RecordedReport& one : all.reports) {
    study.trial(one.trial).curve.push_back(one.report);
  }
  const ReplayTuner tuner = options().make_tuner(Recipe{}, 3);
  CHECK(trusted(study, tuner) == "trusts its bound");
  const StudyExplanation whole = explain_study(study, all, tuner);
  CHECK(whole.best == std::vector<TrialId>{2, 1});
  REQUIRE(whole.cuts.size() == 1);
  CHECK(whole.cuts[0].best.trial == 1);
  CHECK_FALSE(whole.importance.has_value());
  const std::string text = study_explanation_text(study, whole, {}, 0);
  CHECK(text.find("trusts its bound") != std::string::npos);
  Study broken = study;  // a trial that failed is no result
  broken.trial(2).state = TrialState::failed;
  CHECK(explain_study(broken, all, tuner).best == std::vector<TrialId>{1});
  const TrialExplanation second = explain_trial(study, 2, all, tuner);
  CHECK(second.decisions.size() == 2);
  CHECK(second.decisions[0].best.value == 0.4);
  CHECK(second.predicted.size() == 3);
  const std::string drawn = trial_explanation_text(study, second, {});
  CHECK(drawn.find("90% interval") != std::string::npos);
  CHECK(drawn.find("#4 extend to step 2") != std::string::npos);
}

TEST_CASE("a step beyond a bound was never the best so far") {
  const StudyRecords all = records();
  Study study;
  study.trials = all.trials;
  CHECK_FALSE(BestHistory(study, all).changes().empty());
  study.recipe.objective.require = {
      {"val_loss", Comparison::less_equal, -1, "<= -1", ""}};
  CHECK(BestHistory(study, all).changes().empty());
}

}  // namespace dtune
