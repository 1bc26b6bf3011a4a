// What every TrialStore promises, over both of them.
#include "store/memory_store.h"
#include "store/records.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/store/trial_store.h"

namespace dtune {
namespace {

using test::make_report;
using test::make_study;
using test::make_trial;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct InMemory {
  std::unique_ptr<TrialStore> store = test::make_memory_store();
  void reopen() {}
};

struct InSqlite {
  TemporaryDirectory folder;
  std::unique_ptr<TrialStore> store =
      open_sqlite_store(folder.path() / "study.db", StoreMode::create_or_open);
  void reopen() {
    store.reset();
    store = open_sqlite_store(folder.path() / "study.db", StoreMode::open);
  }
};

// What the store has of the only trial.
Trial only_trial(TrialStore& store, CurvePart part = CurvePart::whole) {
  store.flush();
  const std::vector<Trial> trials = store.load_trials(part);
  REQUIRE(trials.size() == 1);
  return trials.front();
}

}  // namespace

TEST_CASE_TEMPLATE("an empty store has nothing", S, InMemory, InSqlite) {
  S s;
  s.reopen();
  CHECK_FALSE(s.store->load_study().has_value());
  CHECK(s.store->load_trials().empty());
  CHECK(s.store->load_events(0).empty());
  CHECK(s.store->load_decisions().empty());
}

TEST_CASE_TEMPLATE("a study comes back as it was put", S, InMemory, InSqlite) {
  S s;
  const StudyRow put = make_study();
  s.store->put_study(put);
  s.store->flush();
  s.reopen();
  const StudyRow got = s.store->load_study().value();
  CHECK(got.id == put.id);
  CHECK(got.name == put.name);
  CHECK(got.recipe_yaml == put.recipe_yaml);
  CHECK(got.recipe_hash == put.recipe_hash);
  CHECK(got.recipe_path == put.recipe_path);
  CHECK(got.state == put.state);
  CHECK(got.horizon == put.horizon);
  CHECK(got.searched_seconds == put.searched_seconds);
  CHECK(got.created_ms == put.created_ms);
  CHECK(got.budget_trials == put.budget_trials);
  CHECK(got.budget_seconds == put.budget_seconds);
  CHECK(got.budget_steps == put.budget_steps);
  CHECK(got.final_json == put.final_json);
  CHECK(got.metric == put.metric);
  CHECK(got.goal == put.goal);
  CHECK(got.sessions == put.sessions);
}

TEST_CASE_TEMPLATE("a study's row is replaced, not added", S, InMemory,
                   InSqlite) {
  S s;
  StudyRow row = make_study();
  s.store->put_study(row);
  row.state = StudyState::finished;
  row.searched_seconds = 99;
  s.store->put_study(row);
  s.store->flush();
  s.reopen();
  CHECK(s.store->load_study()->state == StudyState::finished);
  CHECK(s.store->load_study()->searched_seconds == 99);
}

TEST_CASE_TEMPLATE("another study is refused by name", S, InMemory, InSqlite) {
  S s;
  s.store->put_study(make_study("f00d"));
  s.store->flush();
  s.reopen();
  try {
    s.store->put_study(make_study("beef"));
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::store);
    const std::string text = error.what();
    CHECK(text.find("holds another study") != std::string::npos);
    CHECK(text.find("f00d") != std::string::npos);
  }
  CHECK(s.store->load_study()->id == "f00d");
}

TEST_CASE_TEMPLATE("a trial comes back as it was put", S, InMemory, InSqlite) {
  S s;
  const Trial put = make_trial(1);
  s.store->put_trial(put);
  s.store->flush();
  s.reopen();
  const Trial got = only_trial(*s.store);
  CHECK(got.id == put.id);
  CHECK(got.kind == put.kind);
  CHECK(got.point == put.point);  // types of values included
  CHECK(got.unit == put.unit);
  CHECK(got.seed == put.seed);
  CHECK(got.state == put.state);
  CHECK(got.reason == put.reason);
  CHECK(got.detail == put.detail);
  CHECK(got.attempt == put.attempt);
  CHECK(got.failures == put.failures);
  CHECK(got.target_step == put.target_step);
  CHECK(got.curve.empty());
  CHECK(got.node == put.node);
  CHECK(got.slot == put.slot);
  CHECK(got.created_ms == put.created_ms);
  CHECK(got.started_ms == put.started_ms);
  CHECK(got.ended_ms == put.ended_ms);
  CHECK(got.checkpoint == put.checkpoint);
  CHECK(got.checkpoint_step == put.checkpoint_step);
}

TEST_CASE_TEMPLATE("every kind of trial comes back", S, InMemory, InSqlite) {
  S s;
  s.store->put_study(make_study());
  TrialId id = 0;
  for (const TrialKind kind :
       {TrialKind::search, TrialKind::final, TrialKind::repeat}) {
    Trial trial = make_trial(++id);
    trial.kind = kind;
    s.store->put_trial(trial);
  }
  s.store->flush();
  s.reopen();
  const std::vector<Trial> got = s.store->load_trials();
  REQUIRE(got.size() == 3);
  CHECK(got[0].kind == TrialKind::search);
  CHECK(got[1].kind == TrialKind::final);
  CHECK(got[2].kind == TrialKind::repeat);
}

TEST_CASE_TEMPLATE("putting a trial again keeps its curve", S, InMemory,
                   InSqlite) {
  S s;
  Trial trial = make_trial(1);
  s.store->put_trial(trial);
  s.store->put_report(1, 1, make_report(1, 0.5), nullptr);
  trial.state = TrialState::complete;
  trial.curve = {make_report(7, 0.7)};  // not the store's business
  s.store->put_trial(trial);
  const Trial got = only_trial(*s.store);
  CHECK(got.state == TrialState::complete);
  REQUIRE(got.curve.size() == 1);
  CHECK(got.curve[0].step == 1);
}

TEST_CASE_TEMPLATE("reports come back to the last bit", S, InMemory, InSqlite) {
  S s;
  s.store->put_trial(make_trial(1));
  StepReport report;
  report.step = 1;
  report.metrics = {{"a", 0.1},        {"b", 1e-308},        {"nan", kNan},
                    {"up", kInfinity}, {"down", -kInfinity}, {"\"q\"", 1.0}};
  report.seconds = 1.0 / 3.0;
  report.checkpoint_seconds = 1e-9;
  report.last = true;
  report.sequence = int64_t{1} << 40;
  s.store->put_report(1, 1, report, nullptr);
  s.store->flush();
  s.reopen();
  const Trial trial = only_trial(*s.store);
  REQUIRE(trial.curve.size() == 1);
  const StepReport& got = trial.curve[0];
  CHECK(std::isnan(got.metrics.at("nan")));
  report.metrics.erase("nan");
  for (const auto& [name, value] : report.metrics) {
    CHECK(got.metrics.at(name) == value);
  }
  CHECK(got.metrics.size() == report.metrics.size() + 1);
  CHECK(got.seconds == report.seconds);
  CHECK(got.checkpoint_seconds == report.checkpoint_seconds);
  CHECK(got.last);
  CHECK(got.sequence == report.sequence);
}

TEST_CASE_TEMPLATE("a repeated report changes nothing and is acknowledged", S,
                   InMemory, InSqlite) {
  S s;
  s.store->put_trial(make_trial(1));
  int acknowledged = 0;
  const auto count = [&] { ++acknowledged; };
  s.store->put_report(1, 1, make_report(1, 0.5), count);
  s.store->put_report(1, 1, make_report(1, 0.9), count);
  const Trial trial = only_trial(*s.store);
  CHECK(acknowledged == 2);
  REQUIRE(trial.curve.size() == 1);
  CHECK(trial.curve[0].metrics.at("val_accuracy") == 0.5);
}

TEST_CASE_TEMPLATE("the latest attempt of a step counts, in any order", S,
                   InMemory, InSqlite) {
  S s;
  s.store->put_study(make_study());
  s.store->put_trial(make_trial(1));
  s.store->put_report(1, 1, make_report(1, 0.1), nullptr);
  s.store->put_report(1, 1, make_report(2, 0.9), nullptr);
  s.store->put_report(1, 3, make_report(2, 0.3), nullptr);
  s.store->put_report(1, 2, make_report(2, 0.8), nullptr);  // comes late
  const Trial trial = only_trial(*s.store);
  REQUIRE(trial.curve.size() == 2);
  CHECK(trial.curve[0].metrics.at("val_accuracy") == 0.1);
  CHECK(trial.curve[1].metrics.at("val_accuracy") == 0.3);
  const ObjectiveSpec objective{"val_accuracy", Goal::maximize};
  const Trial ends = only_trial(*s.store, CurvePart::ends);
  CHECK(best_value(objective, ends) == best_value(objective, trial));
  CHECK(last_value(objective, ends) == last_value(objective, trial));
}

TEST_CASE_TEMPLATE("the ends of a curve tell its best and its last step", S,
                   InMemory, InSqlite) {
  S s;
  StudyRow study = make_study();
  s.store->put_study(study);
  s.store->put_trial(make_trial(1));
  const double values[] = {0.2, kNan, 0.8, 0.8, 0.1, -kInfinity};
  for (int step = 1; step <= 6; ++step) {
    s.store->put_report(1, 1, make_report(step, values[step - 1]), nullptr);
  }
  for (const Goal goal : {Goal::maximize, Goal::minimize, Goal::maximize}) {
    study.goal = goal;
    s.store->put_study(study);
    s.reopen();
    const ObjectiveSpec objective{study.metric, goal};
    const Trial whole = only_trial(*s.store);
    const Trial ends = only_trial(*s.store, CurvePart::ends);
    CHECK(whole.curve.size() == 6);
    CHECK(ends.steps() == 6);
    CHECK(best_value(objective, ends) == best_value(objective, whole));
    CHECK(last_value(objective, ends) == last_value(objective, whole));
  }
}

TEST_CASE_TEMPLATE("a study without an objective loads whole curves", S,
                   InMemory, InSqlite) {
  S s;
  s.store->put_trial(make_trial(1));
  for (int step = 1; step <= 3; ++step) {
    s.store->put_report(1, 1, make_report(step, 0.1), nullptr);
  }
  CHECK(only_trial(*s.store, CurvePart::ends).curve.size() == 3);
}

TEST_CASE_TEMPLATE("events and decisions come back in order", S, InMemory,
                   InSqlite) {
  S s;
  for (TrialId id = 1; id <= 2; ++id) s.store->put_trial(make_trial(id));
  s.store->put_event({2, 1, TrialState::running, Reason::assigned, "one", 5});
  s.store->put_event({1, 1, TrialState::failed, Reason::crashed, "two", 4});
  s.store->put_event({2, 1, TrialState::cut, Reason::hopeless, "three", 3});
  s.store->put_decision({2, 1, "resume", 1, "because", 7});
  s.store->put_decision({1, 1, "start", 0, "first", 6});
  s.store->put_decision({1, 2, "start", 0, "a repeat", 6});
  s.store->flush();
  s.reopen();

  const std::vector<TrialEvent> all = s.store->load_events(0);
  REQUIRE(all.size() == 3);
  CHECK(all[0].detail == "one");
  CHECK(all[1].trial == 1);
  CHECK(all[1].state == TrialState::failed);
  CHECK(all[1].reason == Reason::crashed);
  CHECK(all[1].wall_ms == 4);
  const std::vector<TrialEvent> second = s.store->load_events(2);
  REQUIRE(second.size() == 2);
  CHECK(second[1].detail == "three");

  const std::vector<Decision> decisions = s.store->load_decisions();
  REQUIRE(decisions.size() == 2);
  CHECK(decisions[0].number == 1);
  CHECK(decisions[0].why == "first");
  CHECK(decisions[1].action == "resume");
  CHECK(decisions[1].step == 1);
  CHECK(decisions[1].trial == 1);
  CHECK(decisions[1].wall_ms == 7);
}

TEST_CASE_TEMPLATE("records keep their place in the story of the study", S,
                   InMemory, InSqlite) {
  S s;
  s.store->put_study(make_study());
  s.store->put_trial(make_trial(1));
  s.store->put_session({1, "study: a\n", 40, 1.5, 7, 99});
  s.store->put_session({1, "a repeat", 0, 0, 0, 0});
  StepReport late = make_report(1, 0.5);
  late.sequence = 2;
  s.store->put_report(1, 2, late, nullptr);
  StepReport early = make_report(1, 0.4);
  early.sequence = 1;
  s.store->put_report(1, 1, early, nullptr);
  s.store->put_event(
      {1, 2, TrialState::lost, Reason::crashed, "x", 5, 2, 1, 1, 3, "box", 2});
  Decision decision{1, 1, "extend", 1, "y", 6};
  decision.maker = DecisionMaker::judge;
  decision.target_step = 4;
  decision.after_report = 2;
  decision.session = 1;
  decision.searched_seconds = 0.1;
  decision.belief.weights = {{"convlstm", 0.25}, {"plain", 0.75}};
  decision.belief.forecast = Prediction{4, 0.9, 0.85, 0.95};
  s.store->put_decision(decision);
  s.store->put_decision({2, 1, "pause", 1, "nothing is forecast", 7});
  const RankRound rank{1, 2, 40, 1, "box", 8, 640, 1.5, 0.25, 3, 0.6, false};
  s.store->put_rank_round(rank);
  s.store->put_rank_round({1, 2, 40, 1, "a repeat"});
  s.store->put_rank_round({1, 2, 40, 0, "other"});
  s.store->flush();
  s.reopen();

  const StudyRecords records = s.store->load_records();
  CHECK(records.row->id == make_study().id);
  REQUIRE(records.trials.size() == 1);
  CHECK(records.trials[0].curve.empty());
  REQUIRE(records.sessions.size() == 1);
  CHECK(records.sessions[0].recipe_yaml == "study: a\n");
  CHECK(records.sessions[0].budget_trials == 40);
  CHECK(records.sessions[0].budget_seconds == 1.5);
  CHECK(records.sessions[0].budget_steps == 7);
  CHECK(records.sessions[0].started_ms == 99);
  REQUIRE(records.reports.size() == 2);  // the replaced one included
  CHECK(records.reports[0].attempt == 1);
  CHECK(records.reports[0].report.metrics == early.metrics);
  CHECK(records.reports[1].report.sequence == 2);
  REQUIRE(records.events.size() == 1);
  CHECK(records.events[0].after_report == 2);
  CHECK(records.events[0].after_decision == 1);
  CHECK(records.events[0].session == 1);
  CHECK(records.events[0].failures == 3);
  CHECK(records.events[0].node == "box");
  CHECK(records.events[0].slot == 2);
  REQUIRE(records.decisions.size() == 2);
  CHECK(records.decisions[0].belief.weights == decision.belief.weights);
  REQUIRE(records.decisions[0].belief.forecast);
  CHECK(records.decisions[0].belief.forecast->step == 4);
  CHECK(records.decisions[0].belief.forecast->mean == 0.9);
  CHECK(records.decisions[0].belief.forecast->low == 0.85);
  CHECK(records.decisions[0].belief.forecast->high == 0.95);
  CHECK_FALSE(records.decisions[1].belief.forecast);
  CHECK(records.decisions[1].belief.weights.empty());
  REQUIRE(records.ranks.size() == 2);  // by rank
  CHECK(records.ranks[0].node == "other");
  CHECK(records.ranks[1].round == 40);
  CHECK(records.ranks[1].node == "box");
  CHECK(records.ranks[1].samples == 640);
  CHECK(records.ranks[1].compute_seconds == 1.5);
  CHECK(records.ranks[1].wait_seconds == 0.25);
  CHECK(records.ranks[1].late == 3);
  CHECK(records.ranks[1].share == 0.6);
  CHECK_FALSE(records.ranks[1].present);
  CHECK(records.decisions[0].maker == DecisionMaker::judge);
  CHECK(records.decisions[0].target_step == 4);
  CHECK(records.decisions[0].after_report == 2);
  CHECK(records.decisions[0].session == 1);
  CHECK(records.decisions[0].searched_seconds == 0.1);
  CHECK(last_sequence(s.store->load_trials()) == 2);
}

TEST_CASE_TEMPLATE("a report of an unknown trial is refused, others are kept",
                   S, InMemory, InSqlite) {
  S s;
  s.store->put_trial(make_trial(1));
  bool acknowledged = false;
  const auto put = [&] {
    s.store->put_report(9, 1, make_report(1, 0.5),
                        [&acknowledged] { acknowledged = true; });
    s.store->flush();
  };
  CHECK_THROWS_AS(put(), Error);
  CHECK_FALSE(acknowledged);
  s.store->put_report(1, 1, make_report(1, 0.5), nullptr);
  CHECK(only_trial(*s.store).curve.size() == 1);
}

TEST_CASE("a report that the database refuses is not acknowledged") {
  InSqlite s;
  s.store->put_trial(make_trial(1));
  std::vector<int> acknowledged;
  StepReport broken = make_report(2, 0.5);
  broken.seconds = kNan;  // NULL to SQLite
  const auto put = [&] {
    s.store->begin_group();
    for (const StepReport& report : {make_report(1, 0.5), broken}) {
      s.store->put_report(1, 1, report, [&acknowledged, step = report.step] {
        acknowledged.push_back(step);
      });
    }
    s.store->end_group();
    s.store->flush();
  };
  CHECK_THROWS_AS(put(), Error);
  CHECK(acknowledged == std::vector<int>{1});
  CHECK(only_trial(*s.store).steps() == 1);
}

TEST_CASE_TEMPLATE("text of any bytes comes back", S, InMemory, InSqlite) {
  S s;
  Trial trial = make_trial(1);
  trial.detail = std::string("crashed: \xff\xfe \0 end", 18);
  s.store->put_trial(trial);
  CHECK(only_trial(*s.store).detail == trial.detail);
}

}  // namespace dtune
