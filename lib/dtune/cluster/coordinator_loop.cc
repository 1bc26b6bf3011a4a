#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/coordinator_impl.h"
#include "dtune/study/belief.h"
#include "dtune/study/slots.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;

constexpr Duration kCheckInterval = milliseconds(100);
constexpr Duration kSaveInterval = std::chrono::seconds(1);
// While there is much to handle, what was committed is acknowledged so often.
constexpr Duration kAnswerInterval = milliseconds(5);

std::unique_ptr<LeaseFiles> lease_files(const CoordinatorOptions& own) {
  if (own.files.local.empty() && own.files.remote.empty()) return nullptr;
  return std::make_unique<LeaseFiles>(
      LeaseFilesOptions{own.files, own.checkpoints, own.prepared_data});
}

AgentRegistryOptions registry_options(const Study& study,
                                      const CoordinatorOptions& own,
                                      const LeaseFiles* files,
                                      const Clock& clock) {
  const Recipe& recipe = study.recipe;
  AgentRegistryOptions options;
  options.listen.local = own.endpoint;
  options.listen.remote = own.remote;
  options.listen.security = own.security;
  options.transport = own.transport;
  options.take_notices = own.take_notices;
  options.local = own.endpoint.starts_with("ipc://");
  options.step_time = recipe.limits.step_time;
  if (files != nullptr) {
    options.complete_welcome = [files](control::Welcome& welcome, bool remote) {
      files->describe(welcome, remote);
    };
  }
  control::Welcome& welcome = options.welcome;
  welcome.study_id = study.id;
  welcome.session = fmt::format("{}-{}", getpid(), clock.wall_ms());
  welcome.recipe_yaml = study.recipe_yaml;
  welcome.prepared_data = own.prepared_data.string();
  welcome.deterministic = recipe.deterministic;
  welcome.may_fuse = may_fuse(recipe);
  welcome.heartbeat_ns = recipe.limits.heartbeat.count();
  welcome.lease_ns = recipe.limits.lease.count();
  welcome.grace_ns = recipe.limits.grace.count();
  welcome.memory_mb = recipe.resources.memory_mb;
  welcome.warm_trials = recipe.resources.warm_trials;
  return options;
}

}  // namespace

Coordinator::Impl::Impl(Study& study, TrialStore& store, Sampler& sampler,
                        Scheduler& scheduler, ProgressSink& sink,
                        const Clock& clock, CoordinatorOptions options)
    : study_(study),
      sampler_(sampler),
      scheduler_(scheduler),
      sink_(sink),
      clock_(clock),
      options_(std::move(options)),
      objective_(study.recipe.objective),
      deterministic_(study.recipe.deterministic),
      records_(study, store, sink, clock),
      budget_(study.recipe.budget, study),
      best_(study, options_.checkpoints),
      repeats_(study, records_, clock),
      final_(study, records_, best_, clock,
             {options_.model_file, options_.final_horizon}),
      files_(lease_files(options_)),
      registry_(registry_options(study, options_, files_.get(), clock), clock),
      attempts_(study.recipe.limits.retries),
      copies_(study, registry_.clock()),
      gangs_(study.recipe,
             {options_.gangs, options_.gang_address, options_.trace,
              [this] { records_.wakeup().notify(); }}),
      disk_(options_.checkpoints, study.recipe.limits.full_disk) {
  records_.set_belief([this](const Trial& trial, int step) {
    return belief_of(scheduler_, sampler_, study_, trial, step);
  });
}

StudyOutcome Coordinator::Impl::run(const std::atomic<int>& stop) {
  begin();
  try {
    while (phase_ != Phase::done) {
      on_stop(stop);
      if (phase_ != Phase::done) turn();
    }
  } catch (...) {
    registry_.stop(true);  // agents must not wait for a lease to lapse
    kill_orphans(study_.id);
    throw;
  }
  stop_agents();
  best_.checkpoints().remove_temporaries();
  records_.save_study();
  store_end(stop);
  sink_.on_finished(study_, outcome_.best);
  return outcome_;
}

void Coordinator::Impl::begin() {
  kill_orphans(study_.id);
  best_.checkpoints().make_folder();
  study_.state = StudyState::running;
  last_agent_ = clock_.now();
  session_.begin(study_.searched_seconds, budget_.steps(), clock_.now());
  study_.reports = std::max(study_.reports, last_sequence(study_.trials));
  leases_.add_up_to(study_.trials.size());
  {
    const Records::Together together(records_);
    records_.begin_session();
    recover();
    records_.save_study();
  }
  sink_.on_started(study_);
}

// A loaded study: a trial that was running when its coordinator ended goes on
// from the last stored step, and so does one that was on its way to a target.
void Coordinator::Impl::recover() {
  best_.recover();
  std::vector<TrialId> undecided;
  for (Trial& trial : study_.trials) {
    attempts_.recover(trial);
    if (trial.kind != TrialKind::search) continue;
    if (trial.state == TrialState::running) {
      const bool arrived =
          !trial.curve.empty() && trial.steps() >= trial.target_step;
      if (arrived) undecided.push_back(trial.id);
      records_.change(
          trial, trial.curve.empty() ? TrialState::waiting : TrialState::paused,
          Reason::resumed, "its coordinator had ended");
    }
    const bool on_its_way =
        trial.state == TrialState::paused && trial.steps() < trial.target_step;
    if (on_its_way || trial.state == TrialState::waiting ||
        trial.state == TrialState::lost) {
      leases_.owe(trial.id);
    }
  }
  // Their last report was stored, what it leads to was not.
  for (const TrialId id : undecided) {
    Trial& trial = study_.trial(id);
    trial.state = TrialState::running;
    decide_upon(trial);
    if (trial.state != TrialState::running) continue;
    records_.change(trial, TrialState::paused, Reason::resumed, "");
    leases_.owe(id);
  }
}

void Coordinator::Impl::turn() {
  poll(unfilled_ && !records_.behind()
           ? Duration(0)
           : std::min<Duration>(milliseconds(50),
                                study_.recipe.limits.heartbeat / 2));
  check_clocks();
  handle_events();
  on_gang_events();
  if (deterministic_) {
    handle_barriers();
    records_.show_all();  // with the study as it is now, not some steps later
  } else {
    fill();
  }
  advance();
  tick();
}

void Coordinator::Impl::poll(Duration patience) {
  events_.clear();
  if (options_.read_agents) options_.read_agents();
  registry_.poll(patience, records_.wakeup(), events_);
  send_acknowledgements();
}

void Coordinator::Impl::handle_events() {
  MonoTime answered = clock_.now();
  for (RegistryEvent& event : events_) {
    handle(event);
    if (clock_.now() - answered < kAnswerInterval) continue;
    send_acknowledgements();
    answered = clock_.now();
  }
}

void Coordinator::Impl::handle(RegistryEvent& event) {
  if (const auto* notice = std::get_if<Notice>(&event)) {
    records_.notice(notice->text);
    return;
  }
  changed_ = true;
  const auto* step = std::get_if<StepDone>(&event);
  const auto* over = std::get_if<LeaseOver>(&event);
  if (step == nullptr && over == nullptr) return;  // a slot is ready
  if (deterministic_) {
    const TrialId id = step != nullptr ? step->report.trial : over->ended.trial;
    barrier_.add(id, std::move(event));
  } else if (step != nullptr) {
    on_step(*step);
  } else {
    on_lease_over(*over);
  }
}

// `deterministic`: decisions are taken when every slot has had its say, in the
// order of trials, so that they do not depend on which slot was faster. Costs
// what slots wait for the slowest of them after each step.
void Coordinator::Impl::handle_barriers() {
  while (settled()) {
    if (barrier_.empty()) {
      fill();
      return;
    }
    const std::vector<RegistryEvent> batch = barrier_.take_one_each();
    for (const RegistryEvent& event : batch) {
      if (const auto* step = std::get_if<StepDone>(&event)) {
        on_step(*step);
      } else {
        on_lease_over(std::get<LeaseOver>(event));
      }
    }
    if (barrier_.empty()) fill();
  }
}

bool Coordinator::Impl::settled() const {
  int64_t slots = 0;
  for (const RegisteredSlot& slot : registry_.slots()) {
    if (slot.state == SlotState::gone) continue;
    ++slots;
    if (slot.state == SlotState::down) return false;
    if (slot.state != SlotState::idle && !barrier_.holds(slot.trial)) {
      return false;
    }
  }
  return slots > 0 && slots >= study_.recipe.resources.slots;
}

// Commits keep the order of reports, so the last of a run stands for all.
void Coordinator::Impl::send_acknowledgements() {
  const std::vector<CommittedReport> done = records_.committed();
  for (size_t i = 0; i < done.size(); ++i) {
    const bool covered = i + 1 < done.size() &&
                         done[i + 1].slot == done[i].slot &&
                         done[i + 1].ack.trial == done[i].ack.trial &&
                         done[i + 1].ack.attempt == done[i].ack.attempt &&
                         done[i + 1].ack.step > done[i].ack.step;
    if (!covered) registry_.acknowledge(done[i].ack, done[i].slot);
  }
  if (!done.empty()) registry_.flush();
}

void Coordinator::Impl::check_clocks() {
  const MonoTime now = clock_.now();
  if (phase_ == Phase::search) update_searched();
  if (now < next_check_) return;
  next_check_ = now + std::min<Duration>(kCheckInterval,
                                         study_.recipe.limits.heartbeat / 2);
  check_copies_ = true;
  close_files();
  check_agents(now);
  check_gang_size(now);
  check_deadlines();
  registry_.check(events_);
  const double cap = to_seconds(study_.recipe.limits.trial_time);
  for (const RegisteredSlot& slot : registry_.slots()) {
    if (cap <= 0 || slot.state != SlotState::busy) continue;
    Trial& trial = study_.trial(slot.trial);
    const double ran = leases_.seconds(trial.id, now);
    if (trial.kind == TrialKind::search && ran > cap &&
        trial.state == TrialState::running) {
      stop_trial(trial, DecisionMaker::coordinator, "cut",
                 TrialState::timed_out, Reason::wall_clock,
                 fmt::format("ran for {}, limits.trial_time is {}",
                             format_duration(from_seconds(ran)),
                             format_duration(from_seconds(cap))));
    }
  }
  if (phase_ == Phase::search && !search_over_ &&
      budget_.time_spent(study_.searched_seconds)) {
    end_of_search(fmt::format("the time budget of {} is spent{}",
                              format_duration(study_.recipe.budget.time),
                              shortage_.describe(clock_.now())));
    pause_all(Reason::budget, why_over_);
  }
  if (now >= next_save_) {
    next_save_ = now + kSaveInterval;
    records_.retry();
    records_.save_study();
  }
  check_disk(now);
}

void Coordinator::Impl::check_disk(MonoTime now) {
  if (records_.blocked()) {
    disk_.database_full(now);
  } else if (disk_.database_written(now)) {
    return;
  } else if (std::any_of(registry_.slots().begin(), registry_.slots().end(),
                         [](const RegisteredSlot& slot) {
                           return slot.state == SlotState::busy &&
                                  slot.progress.phase == kNoSpacePhase;
                         })) {
    on_full_disk(
        fmt::format("the disk of {} is full: a step is trained, but "
                    "its checkpoint cannot be written",
                    options_.checkpoints.string()));
  }
  if (!disk_.given_up(now) || phase_ == Phase::done || stop_level_ > 0) return;
  give_up_disk();
}

void Coordinator::Impl::give_up_disk() {
  outcome_.temporary = true;
  end(StudyState::interrupted,
      fmt::format("the disk was full for {} (limits.full_disk); with room on "
                  "it `dtune resume` goes on from here",
                  format_duration(disk_.patience())));
}

// What ended the study may not be stored yet: a full disk is waited for here,
// too.
void Coordinator::Impl::store_end(const std::atomic<int>& stop) {
  while (!records_.flush() && !outcome_.temporary && stop == 0) {
    disk_.database_full(clock_.now());
    if (disk_.given_up(clock_.now())) give_up_disk();
    poll(milliseconds(200));
  }
}

void Coordinator::Impl::on_full_disk(const std::string& why) {
  if (!disk_.full(clock_.now())) return;
  records_.set_disk_full(true);
  records_.alert(fmt::format("{}; waiting for up to {} (limits.full_disk)", why,
                             format_duration(disk_.patience())));
}

void Coordinator::Impl::check_agents(MonoTime now) {
  if (options_.take_demand) options_.take_demand(demand());
  if (options_.ensure_local_agent && stop_level_ == 0) {
    options_.ensure_local_agent();
  }
  const auto& slots = registry_.slots();
  const bool agents = registry_.present_agents() > 0;
  // What a study waits for its first agent is not time that it searched.
  had_agent_ = had_agent_ || agents;
  if (!had_agent_) {
    session_.begin(study_.searched_seconds, budget_.steps(), now);
  }
  const bool all_gone =
      agents && !slots.empty() &&
      std::all_of(slots.begin(), slots.end(), [](const RegisteredSlot& s) {
        return s.state == SlotState::gone;
      });
  if (all_gone) {
    end(StudyState::failed,
        "no slot is left that can run a trial (the notices above say why)");
  } else if (agents) {
    last_agent_ = now;
  } else if (now - last_agent_ > options_.agent_timeout) {
    end(StudyState::failed,
        fmt::format("no agent has joined within {} (is `dtune agent --connect "
                    "{}` running?)",
                    format_duration(options_.agent_timeout),
                    registry_.endpoint()));
  }
}

void Coordinator::Impl::on_stop(int level) {
  const MonoTime now = clock_.now();
  if (level > stop_level_) {
    const LimitsSpec& limits = study_.recipe.limits;
    stop_level_ = level;
    stop_deadline_ = now + 2 * limits.grace + limits.lease;
    pause_all(Reason::user, "stopped by the user");
  }
  if (stop_level_ == 0) return;
  if (stop_level_ > 1 || !any_lease() || now > stop_deadline_) {
    end(StudyState::interrupted,
        "stopped by the user; `dtune resume` goes on from here");
  }
}

// Slots stop within their step; what counts is the checkpoint of the last one.
void Coordinator::Impl::pause_all(Reason reason, const std::string& why) {
  for (size_t i = 0; i < registry_.slots().size(); ++i) {
    const RegisteredSlot& slot = registry_.slots()[i];
    if (slot.state != SlotState::busy) continue;
    Trial& trial = study_.trial(slot.trial);
    if (trial.state == TrialState::running) {
      records_.change(trial, TrialState::paused, reason, why);
    }
    release(trial, true);
  }
}

void Coordinator::Impl::advance() {
  if (phase_ == Phase::done || stop_level_ > 0) return;
  if (phase_ == Phase::final) {
    advance_final();
  } else if (phase_ == Phase::repeats) {
    if (!any_lease() && !leases_.owes()) end_repeats();
  } else if (search_over_ && !any_lease() && (given_up_ || !leases_.owes())) {
    update_searched();
    end_search();
  }
}

// Also for those that are owed a lease: nothing is trained any more.
void Coordinator::Impl::end_of_search(const std::string& why) {
  search_over_ = given_up_ = true;
  why_over_ = why;
}

void Coordinator::Impl::update_searched() {
  study_.searched_seconds = session_.seconds(clock_.now());
}

void Coordinator::Impl::end(StudyState state, const std::string& why) {
  phase_ = Phase::done;
  const Reason reason =
      state == StudyState::interrupted ? Reason::user : Reason::node_lost;
  for (Trial& trial : study_.trials) {
    if (trial.state == TrialState::running) {
      records_.change(trial, TrialState::paused, reason, why);
    }
  }
  study_.state = state;
  outcome_.state = state;
  outcome_.why = why;
  outcome_.best = best_.id();
}

// Bounded: an agent that does not say bye is left to its lease.
void Coordinator::Impl::stop_agents() {
  const LimitsSpec& limits = study_.recipe.limits;
  registry_.stop(stop_level_ > 1,
                 options_.returns && outcome_.state == StudyState::interrupted);
  const MonoTime deadline =
      clock_.now() + 3 * limits.grace + std::chrono::seconds(4);
  while (registry_.present_agents() > 0 && clock_.now() < deadline) {
    poll(milliseconds(20));
    registry_.check(events_);
  }
  registry_.flush();
  if (registry_.present_agents() + registry_.lost_agents() > 0) {
    kill_orphans(study_.id);
  }
}

}  // namespace dtune
