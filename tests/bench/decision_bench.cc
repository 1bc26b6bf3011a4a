// How long the default tuner takes for a decision in a large study: 20
// parameters (three of the recorded cube), 30% of the trials failed, all but a
// few of the others paused. Prints rows for bench_runner.
//
// Times are processor time of the one thread that decides, of each call of
// Scheduler::next and Scheduler::judge. The baseline of each
// row is the goal in ms (resume: in ms, too), so that the
// ratio says how far below it the measured time is.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

#include "optuna_rows.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/tuner/factory.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own
using nlohmann::json;

constexpr int kHorizon = 50;
constexpr int kParameters = 20;
constexpr double kFailed = 0.3;
constexpr double kDecisionGoal = 50;  // ms, of 99%
constexpr double kLongestGoal = 100;  // ms; slots wait for it
constexpr double kResumeGoal = 3000;  // ms

Recipe make_recipe() {
  std::vector<Parameter> parameters;
  for (int i = 0; i < kParameters; ++i) {
    Parameter p;
    p.name = fmt::format("p{}", i);
    parameters.push_back(p);
  }
  parameters[0] = {
      .name = "lr", .key = "train.lr", .low = 1e-4, .high = 0.5, .log = true};
  parameters[1] = {
      .name = "l2", .key = "train.l2", .low = 1e-6, .high = 1e-2, .log = true};
  parameters[2] = {.name = "dropout", .key = "model.dropout", .high = 0.6};
  Recipe recipe;
  recipe.space = SearchSpace(std::move(parameters));
  return recipe;
}

double value_at(const Trial& trial, int step, Rng& rng) {
  double off = 0;
  for (size_t i = 0; i < trial.unit.size(); ++i) {
    off += (i < 3 ? 1.0 : 0.1) * std::pow(trial.unit[i] - 0.6, 2);
  }
  return (0.9 - 0.4 * off) * (1 - std::exp(-0.15 * step)) +
         0.003 * rng.normal();
}

void report(Study& study, Trial& trial, int step, Rng& rng) {
  while (trial.steps() < step) {
    StepReport next;
    next.step = trial.steps() + 1;
    next.metrics["val_accuracy"] = value_at(trial, next.step, rng);
    next.seconds = 1;
    next.sequence = ++study.reports;
    trial.curve.push_back(std::move(next));
  }
}

// `reports` over a number of trials of which `paused` are paused.
Study make_study(int64_t reports, int paused) {
  Study study;
  study.recipe = make_recipe();
  study.horizon = kHorizon;
  Rng rng(7);
  const auto trials = static_cast<int>(paused / (1 - kFailed)) + 8;
  const int mean = static_cast<int>(reports / paused);
  for (int i = 0; i < trials; ++i) {
    Trial trial;
    trial.id = i + 1;
    trial.unit.resize(kParameters);
    for (double& u : trial.unit) u = rng.uniform();
    trial.point = study.recipe.space.decode(trial.unit);
    trial.unit = study.recipe.space.encode(trial.point);
    trial.seed = uint64_t(i);
    const bool failed = i >= 8 && rng.uniform() < kFailed;
    trial.state = failed ? TrialState::failed : TrialState::paused;
    study.trials.push_back(std::move(trial));
    Trial& added = study.trials.back();
    if (failed) continue;
    const auto spread = static_cast<int>(rng.below(uint64_t(2 * mean - 1)));
    report(study, added, std::min(kHorizon - 1, 1 + spread), rng);
    added.target_step = added.steps();
  }
  return study;
}

// Of this thread, so that other programs on the machine do not count.
double processor_ms() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * double(now.tv_sec) + 1e-6 * double(now.tv_nsec);
}

struct Times {
  double resume = 0;          // the first call
  std::vector<double> next;   // a free slot asks
  std::vector<double> judge;  // a step was reported
};

// Of Scheduler::judge after every step, as the coordinator asks it.
Verdict train(Study& study, Trial& trial, int target, Scheduler& scheduler,
              Rng& rng, Times& times) {
  for (;;) {
    report(study, trial, trial.steps() + 1, rng);
    const bool reached = trial.steps() >= target;
    const double began = processor_ms();
    const Verdict verdict = scheduler.judge(study, trial, reached);
    times.judge.push_back(processor_ms() - began);
    if (reached || verdict.kind != Verdict::Kind::go_on) return verdict;
  }
}

Trial& trial_of(Study& study, const Directive& directive) {
  if (directive.kind == Directive::Kind::resume) {
    return study.trial(directive.trial);
  }
  Trial trial;
  trial.id = std::ssize(study.trials) + 1;
  trial.point = directive.point;
  trial.unit = study.recipe.space.encode(directive.point);
  study.trials.push_back(std::move(trial));
  return study.trials.back();
}

// One slot.
Times measure(Study study, int decisions) {
  Rng rng(11);
  const Tuner tuner = make_tuner(study.recipe, kHorizon);
  Times times;
  for (int i = 0; i <= decisions; ++i) {
    const double began = processor_ms();
    const Directive directive =
        tuner.scheduler->next(study, *tuner.sampler, ++study.decisions, true);
    const double spent = processor_ms() - began;
    (i == 0 ? times.resume : times.next.emplace_back()) = spent;
    Trial& trial = trial_of(study, directive);
    trial.state = TrialState::running;
    const Verdict verdict =
        train(study, trial, std::min(directive.target_step, kHorizon),
              *tuner.scheduler, rng, times);
    trial.state = trial.steps() >= kHorizon            ? TrialState::complete
                  : verdict.kind == Verdict::Kind::cut ? TrialState::cut
                                                       : TrialState::paused;
    trial.target_step = trial.steps();
  }
  std::sort(times.next.begin(), times.next.end());
  std::sort(times.judge.begin(), times.judge.end());
  return times;
}

void print_row(const std::string& name, double ours, double goal,
               const std::string& detail) {
  fmt::print(R"({{"name": "{}", "ours": {:.1f}, "baseline": {:.1f}, )"
             R"("ratio": {:.2f}, "goal": 1.0, "ok": {}, "unit": "ms", )"
             R"("detail": "{}"}})"
             "\n",
             name, ours, goal, goal / ours, ours <= goal, detail);
}

// Of sorted times.
double quantile(const std::vector<double>& times, double p) {
  return times[static_cast<size_t>(p * double(times.size() - 1))];
}

void print_rows(int64_t reports, int paused) {
  // So many that the model is made anew among them at least once.
  constexpr int kDecisions = 200;
  const Study study = make_study(reports, paused);
  const Times times = measure(study, kDecisions);
  const std::string size = fmt::format(
      "{} reports, {} trials, {} parameters; the baseline is the "
      "goal",
      study.reports, study.trials.size(), kParameters);
  for (const auto& [what, all] :
       {std::pair("a free slot's next step", &times.next),
        std::pair("a report's verdict", &times.judge)}) {
    print_row(fmt::format("tuner: {} at {} reports (p99)", what, reports),
              quantile(*all, 0.99), kDecisionGoal,
              fmt::format("of {}; p50 {:.1f} ms; {}", all->size(),
                          quantile(*all, 0.5), size));
  }
  print_row(fmt::format("tuner: the longest decision at {} reports", reports),
            std::max(times.next.back(), times.judge.back()), kLongestGoal,
            size);
  print_row(fmt::format("tuner: resume at {} reports", reports), times.resume,
            kResumeGoal, size);
}

// Optuna's proposals with as many trials: the baseline is the goal here, too.
void print_optuna() {
  for (const json& row : optuna_rows("decision_optuna.py 222 1436")) {
    print_row(fmt::format("Optuna {} {}: a proposal at {} trials (p99)",
                          row["optuna"].get<std::string>(),
                          row["sampler"].get<std::string>(),
                          row["trials"].get<int>()),
              row["p99_ms"].get<double>(), kDecisionGoal,
              fmt::format("of {}; p50 {:.1f} ms", row["asks"].get<int>(),
                          row["p50_ms"].get<double>()));
  }
}

}  // namespace

int main() try {
  print_rows(1000, 150);
  print_rows(10000, 1000);
  print_optuna();
  return 0;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
