#include "cluster/local_study.h"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "eventually.h"
#include <fmt/format.h>

#include "dtune/review/replay.h"
#include "dtune/store/final_result.h"

namespace dtune::toy {

LocalStudy::LocalStudy(const std::filesystem::path& folder,
                       const std::string& id, int slots, const Recipe& recipe,
                       std::vector<Point> points)
    : study(toy::study(recipe, id)),
      store(open_sqlite_store(folder / "study.db", StoreMode::create_or_open)),
      points_(points),
      sampler_(std::move(points)),
      slots_(slots) {
  if (const auto row = store->load_study()) {
    study.id = row->id;
    study.state = row->state;
    study.searched_seconds = row->searched_seconds;
    study.trials = store->load_trials();
    study.decisions = static_cast<int64_t>(store->load_decisions().size());
  }
  scheduler = make_scheduler(recipe, study.horizon);
  options.endpoint = sockets.endpoint("coordinator");
  options.checkpoints = folder / "checkpoints";
  options.model_file = folder / "model";
  options.ensure_local_agent = [this] { ensure_agent(); };
}

void LocalStudy::ensure_agent() {
  if (agent && !agent->status()) return;
  SpawnOptions spawn;
  spawn.argv = {DTUNE_FAKE_WORKER, "agent", options.endpoint, study.id,
                std::to_string(slots_)};
  spawn.environment["DTUNE_STUDY"] = study.id;
  spawn.death_signal = SIGTERM;
  spawn.capture = false;
  agent = std::make_unique<Child>(spawn);
  ++agents_started;
}

StudyOutcome LocalStudy::run(const std::atomic<int>& stop) {
  Coordinator coordinator(study, *store, sampler_, *scheduler, sink, *clock,
                          options);
  if (at_start) at_start(coordinator);
  StudyOutcome outcome = coordinator.run(stop);
  if (agent) agent->wait(std::chrono::seconds(60));
  if (replays) check_replay();
  return outcome;
}

std::map<std::string, double> LocalStudy::final_metrics() const {
  return decode_final_result(store->load_study()->final_json).value().metrics;
}

void LocalStudy::at_first_report(std::function<void()> act) {
  sink.at_report = [act = std::move(act), done = false](
                       const Study&, const Trial& trial,
                       const StepReport&) mutable {
    if (done || trial.id != 1) return;
    done = true;
    act();
  };
}

void LocalStudy::check_replay() {
  store->flush();
  ReplayOptions replaying;
  replaying.parse_recipe = [this](const std::string&) { return study.recipe; };
  replaying.make_tuner = [this](const Recipe& recipe, int horizon) {
    return ReplayTuner{std::make_unique<ListSampler>(points_),
                       make_scheduler(recipe, horizon)};
  };
  const ReplayResult result = replay(store->load_records(), replaying);
  if (!result.difference && result.decisions == study.decisions) return;
  std::string what = fmt::format("{} of {} decisions were taken again",
                                 result.decisions, study.decisions);
  if (const auto& found = result.difference) {
    what += fmt::format("; {}: {} with trial {} was recorded, now {} with {}",
                        found->decision, found->recorded.action,
                        found->recorded.trial, found->taken.action,
                        found->taken.trial);
  }
  throw std::runtime_error(what);
}

std::vector<pid_t> leftovers(const std::string& study_id) {
  std::vector<pid_t> found;
  eventually([&] {
    found = find_marked({"DTUNE_STUDY=" + study_id});
    return found.empty();
  });
  return found;
}

bool signal_worker(const std::string& study_id, int slot, int signal) {
  const auto found = find_marked(
      {"DTUNE_STUDY=" + study_id, "DTUNE_SLOT=" + std::to_string(slot)});
  return !found.empty() && kill(found.front(), signal) == 0;
}

}  // namespace dtune::toy
