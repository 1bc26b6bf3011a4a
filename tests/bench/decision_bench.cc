// How long the default tuner takes for a decision in a large study: 20
// parameters (three of the recorded cube), 30% of the trials failed, all but a
// few of the others paused. Prints rows for bench_runner.
//
// Times are processor time of the one thread that decides. The baseline of each
// row is the goal in ms (resume: in ms, too), so that the
// ratio says how far below it the measured time is.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/tuner/factory.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

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
  double resume = 0;
  std::vector<double> decisions;
};

// One slot: a decision, its step, and what the scheduler says of that.
Times measure(Study study, int decisions) {
  Rng rng(11);
  const Tuner tuner = make_tuner(study.recipe, kHorizon);
  Times times;
  for (int i = 0; i <= decisions; ++i) {
    const double began = processor_ms();
    const Directive d =
        tuner.scheduler->next(study, *tuner.sampler, ++study.decisions, true);
    double spent = processor_ms() - began;
    if (d.kind == Directive::Kind::start) {
      Trial trial;
      trial.id = std::ssize(study.trials) + 1;
      trial.point = d.point;
      trial.unit = study.recipe.space.encode(d.point);
      study.trials.push_back(std::move(trial));
    }
    Trial& trial = d.kind == Directive::Kind::start ? study.trials.back()
                                                    : study.trial(d.trial);
    trial.state = TrialState::running;
    report(study, trial, std::min(d.target_step, kHorizon), rng);
    const double judged = processor_ms();
    const Verdict verdict = tuner.scheduler->judge(study, trial, true);
    spent += processor_ms() - judged;
    trial.state = trial.steps() >= kHorizon            ? TrialState::complete
                  : verdict.kind == Verdict::Kind::cut ? TrialState::cut
                                                       : TrialState::paused;
    trial.target_step = trial.steps();
    if (i == 0) {
      times.resume = spent;
    } else {
      times.decisions.push_back(spent);
    }
  }
  std::sort(times.decisions.begin(), times.decisions.end());
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

void print_rows(int64_t reports, int paused) {
  // So many that the model is made anew among them at least once.
  constexpr int kDecisions = 200;
  const Study study = make_study(reports, paused);
  const Times times = measure(study, kDecisions);
  const double p50 = times.decisions[kDecisions / 2];
  const double p99 = times.decisions[kDecisions - 1 - kDecisions / 100];
  const std::string size =
      fmt::format("{} reports, {} trials, {} parameters", study.reports,
                  study.trials.size(), kParameters);
  print_row(fmt::format("tuner: a decision at {} reports (p99)", reports), p99,
            kDecisionGoal,
            fmt::format("{}; p50 {:.1f} ms; the baseline is the "
                        "goal",
                        size, p50));
  print_row(
      fmt::format("tuner: the longest decision at {} reports", reports),
      times.decisions.back(), kLongestGoal,
      fmt::format("of {}, {}; the baseline is the goal", kDecisions, size));
  print_row(fmt::format("tuner: resume at {} reports", reports), times.resume,
            kResumeGoal, fmt::format("{}; the baseline is the goal", size));
}

}  // namespace

int main() try {
  print_rows(1000, 150);
  print_rows(10000, 1000);
  return 0;
} catch (const dtune::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
