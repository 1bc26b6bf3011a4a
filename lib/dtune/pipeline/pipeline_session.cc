#include "dtune/pipeline/pipeline_session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dtune/distributed/gang_session.h"
#include "dtune/pipeline/pipeline_costs.h"
#include "dtune/pipeline/pipeline_plan.h"
#include "dtune/pipeline/pipeline_trainer.h"

namespace dtune {
namespace {

// Until all have measured: the leader takes some seconds for large layers.
constexpr Duration kPlanPatience = std::chrono::seconds(120);
constexpr Duration kPipelineSlice = std::chrono::milliseconds(200);
// A peer that leaves since the trial is paused is noticed before one's own
// pause has come.
constexpr Duration kPausePatience = std::chrono::seconds(1);
// Batches that a wait may take before a peer counts as gone.
constexpr double kBatchesOfPatience = 20;
// More samples do not measure a layer's cost better.
constexpr int64_t kMostMeasuredSamples = 32;

PipelinePlace place_of(const TrialAssignment& assignment) {
  const ParallelSpec& parallel = assignment.recipe.parallel;
  const RankInfo& rank = assignment.rank.value();
  const bool hybrid = parallel.mode == ParallelMode::hybrid;
  const int stages = hybrid ? parallel.model : rank.members;
  const int replicas = hybrid ? parallel.data : 1;
  if (stages < 1 || stages * replicas != rank.members) {
    throw Error(ErrorKind::internal,
                fmt::format("pipeline: {} members for {} x {} stages",
                            rank.members, replicas, stages));
  }
  return {{rank.member % stages, stages}, rank.member / stages, replicas};
}

void throw_if_paused(const std::atomic<bool>& stop) {
  const MonoTime end = system_clock().now() + kPausePatience;
  while (!stop && system_clock().now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (stop) throw StepStopped();
}

class PipelineSession final : public GangSession {
 public:
  PipelineSession(const TrialAssignment& given,
                  std::shared_ptr<const PreparedData> prepared)
      : GangSession(given, std::move(prepared)),
        place_(place_of(assignment())),
        layers_(layers_for(assignment().recipe.model, *data())) {
    check_depth();
    if (predictions() != nullptr) {
      batches_.emplace(
          BatchSource(data(), {Split::validation}, normalization()),
          data()->classes(), device());
    }
    start();
  }

  uint64_t resident_bytes() const override {
    return GangSession::resident_bytes() +
           (trainer_ ? trainer_->resident_bytes() : 0);
  }

 protected:
  TrainingState state() override;
  void set_progress(int64_t position, int64_t updates) override;
  StepReport load() override;
  std::optional<TrainingState> gather(int leader) override;
  gang::Begin begin_of(int step) override;
  void joined(const gang::Regroup& order) override;
  gang::Order train(const gang::Work& work,
                    const std::atomic<bool>& stop) override;
  Network* whole_network() override { return nullptr; }
  std::map<std::string, double> judge_step() override { return judged_; }
  void abandon() override;

 private:
  NetworkOptions network_options() const {
    return {.device = device(),
            .init_seed = seed_for(assignment().seed, "weights"),
            .compute = compute_type(assignment().recipe.train.precision)};
  }
  void check_depth() const;
  void make_trainer(const gang::Regroup& order);
  PlanRequest plan_request(const gang::Regroup& order);
  double measure_input(int64_t samples) const;
  std::string value_of(const std::string& key);
  Duration patience() const;
  PipelineWatch watch();
  gang::Order train_whole_step(const gang::Work& work,
                               const std::atomic<bool>& stop);
  std::map<std::string, double> judge_split(const std::atomic<bool>& stop);
  void report(const gang::Work& work, const LossTotals& sums);

  PipelinePlace place_;
  std::vector<LayerSpec> layers_;
  std::optional<EvaluationBatches> batches_;
  std::optional<TrainingState> loaded_;  // until there is a trainer
  PipelinePlan plan_of_layers_;
  mutable std::optional<PipelineTrainer> trainer_;
  bool in_training_ = false;  // the state is in the middle of a step
  std::map<std::string, double> judged_;  // leader
};

// All find it out alike, before any waits for the leader's plan.
void PipelineSession::check_depth() const {
  const std::vector<int> candidates = stage_candidates(
      layers_, data()->image_shape(), network_options(), place_.stage.stages);
  const std::vector<PipelineUnit> units(candidates.size());
  const std::vector<StageHost> hosts(static_cast<size_t>(place_.stage.stages));
  cut_into_stages(units, hosts);
}

TrainingState PipelineSession::state() {
  if (trainer_) return trainer_->state();
  TrainingState state;
  if (loaded_)
    state = {{},
             loaded_->architecture,
             loaded_->samples,
             loaded_->position,
             loaded_->updates};
  return state;
}

void PipelineSession::set_progress(int64_t position, int64_t updates) {
  if (trainer_) trainer_->set_progress(position, updates);
}

StepReport PipelineSession::load() {
  const bool more = trains_on_validation(assignment());
  loaded_ = empty_state(assignment().recipe, *data(),
                        data()->count(Split::train) +
                            (more ? data()->count(Split::validation) : 0));
  return load_checkpoint(assignment().checkpoint, owner_of(assignment()),
                         *loaded_);
}

std::optional<TrainingState> PipelineSession::gather(int leader) {
  if (leader != 0 || !trainer_) {
    throw Error(ErrorKind::comm, "pipeline: its first stage is missing");
  }
  return trainer_->gather_state();
}

gang::Begin PipelineSession::begin_of(int step) {
  gang::Begin begin = GangSession::begin_of(step);
  begin.evaluation_batches = 0;  // judged at the end of the training
  begin.own_training = true;
  return begin;
}

void PipelineSession::joined(const gang::Regroup& order) {
  if (static_cast<int>(order.members.size()) != place_.members()) {
    throw TrialFailure(
        Reason::lease_lapsed,
        fmt::format("pipeline: {} of {} members are left, and no stage can be "
                    "missing (the trial goes on from its checkpoint)",
                    order.members.size(), place_.members()));
  }
  if (!trainer_) make_trainer(order);
  PipelineGroups groups{.all = &link().whole_group(), .patience = patience()};
  if (place_.replicas > 1) {
    std::vector<int> same;
    for (int replica = 0; replica < place_.replicas; ++replica) {
      same.push_back(place_.member_of(place_.stage.stage, replica));
    }
    groups.same_stage = &link().group(same, round(), patience());
  }
  trainer_->attach(groups);
}

void PipelineSession::make_trainer(const gang::Regroup& order) {
  client().set_phase("measuring layers");
  const PlanStore store{
      .set =
          [this](const std::string& key, const std::string& value) {
            client().store().set(key, value);
          },
      .get = [this](const std::string& key) { return value_of(key); }};
  plan_of_layers_ = agree_on_plan(plan_request(order), place_,
                                  link().whole_group(), kDataPatience, store);
  client().trace().mark("control", describe(plan_of_layers_, layers_));
  trainer_.emplace(assignment().recipe, trainer_options(assignment(), device()),
                   data(), place_, plan_of_layers_.first_layer, watch());
  if (loaded_) trainer_->set_state(*loaded_);
  loaded_.reset();
  take_commit();
}

PlanRequest PipelineSession::plan_request(const gang::Regroup& order) {
  const Recipe& recipe = assignment().recipe;
  const int64_t part = std::max(1, recipe.train.batch_size / place_.replicas);
  const int wanted =
      micro_batches_of(recipe.parallel.pipeline, place_.stage.stages);
  PlanRequest request;
  request.layers = layers_;
  request.input = data()->image_shape();
  request.network = network_options();
  request.samples = std::clamp<int64_t>(part / wanted, 2, kMostMeasuredSamples);
  request.deterministic = computing_of(assignment()).deterministic;
  if (place_.leader() && !request.deterministic) {
    request.input_seconds = measure_input(request.samples);
  }
  request.key = fmt::format("pipeline.{}", order.incarnation);
  return request;
}

// Seconds to get one sample of a training batch ready.
double PipelineSession::measure_input(int64_t samples) const {
  const BatchSource source(data(), {Split::train}, normalization());
  samples = std::min(samples, source.count());
  std::vector<uint32_t> numbers(static_cast<size_t>(samples));
  std::iota(numbers.begin(), numbers.end(), 0U);
  std::vector<int32_t> labels(numbers.size());
  const at::Tensor images = batch_tensor(samples, source.image_shape());
  const std::span<float> out(images.data_ptr<float>(),
                             static_cast<size_t>(images.numel()));
  const AugmentKey key{assignment().recipe.data.augment, 0, 0};
  source.gather(numbers, key, out, labels);  // pages come in
  const MonoTime begin = system_clock().now();
  source.gather(numbers, key, out, labels);
  return to_seconds(system_clock().now() - begin) /
         static_cast<double>(samples);
}

// Waits in slices, so that another order ends it.
std::string PipelineSession::value_of(const std::string& key) {
  const MonoTime end = system_clock().now() + kPlanPatience;
  while (true) {
    try {
      return client().store().get(key, kPipelineSlice);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::comm || system_clock().now() > end) throw;
    }
    if (link().has_order()) {
      throw Error(ErrorKind::comm, "pipeline: another order has come");
    }
  }
}

Duration PipelineSession::patience() const {
  const auto& predicted = plan_of_layers_.predicted;
  const double slowest =
      predicted.empty() ? 0
                        : *std::max_element(predicted.begin(), predicted.end());
  const double batch = slowest * assignment().recipe.train.batch_size;
  // Predictions are times where costs were measured, else a guess.
  return std::max(kDataPatience, from_seconds(kBatchesOfPatience * batch));
}

PipelineWatch PipelineSession::watch() {
  return {.phase = [this](const char* text,
                          int64_t number) { client().set_phase(text, number); },
          .span =
              [this](const char* name, int64_t number, MonoTime begin,
                     MonoTime end) {
                TraceRecorder& trace = client().trace();
                if (!trace.enabled()) return;
                const bool waits = std::string_view(name) == "wait";
                trace.span(waits ? "comm" : "compute",
                           fmt::format("{} micro {}", name, number), begin,
                           end);
              }};
}

gang::Order PipelineSession::train(const gang::Work& work,
                                   const std::atomic<bool>& stop) {
  try {
    return train_whole_step(work, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::comm) throw_if_paused(stop);
    throw;
  }
}

gang::Order PipelineSession::train_whole_step(const gang::Work& work,
                                              const std::atomic<bool>& stop) {
  in_training_ = true;
  const LossTotals sums =
      trainer_->train_to(plan().end_of(step()), stop,
                         [this](int64_t position) { note_position(position); });
  judged_ = judge_split(stop);
  report(work, sums);
  client().set_phase("waiting for the other stages");
  gang::Order order = link().wait_for(work.round, stop);
  // After the go no member goes back.
  if (std::holds_alternative<gang::Go>(order)) in_training_ = false;
  return order;
}

std::map<std::string, double> PipelineSession::judge_split(
    const std::atomic<bool>& stop) {
  if (!batches_) return {};
  const std::optional<Predictions> all = trainer_->answer(*batches_, stop);
  if (!all) return {};
  if (!all->finite()) {
    return {{"val_loss", std::numeric_limits<double>::quiet_NaN()}};
  }
  return all->metrics("val_");
}

// All have the sums of the whole batches, so one reports them.
void PipelineSession::report(const gang::Work& work, const LossTotals& sums) {
  gang::Ready ready;
  ready.round = work.round;
  ready.updates = trainer_->updates();
  if (place_.leader()) ready.totals = sums;
  ready.times = times = trainer_->take_times();
  const auto at = static_cast<size_t>(place_.stage.stage);
  client().gauge("stage", place_.stage.stage + 1);
  client().gauge("predicted_ms", 1e3 * plan_of_layers_.predicted[at]);
  if (times.samples > 0) {
    client().gauge("measured_ms",
                   1e3 * times.compute() / static_cast<double>(times.samples));
  }
  client().ready(ready);
}

// Between steps there is nothing to forget; inside one it begins anew.
void PipelineSession::abandon() {
  if (!trainer_) return;
  trainer_->abandon();
  if (in_training_) put_commit();
  in_training_ = false;
}

}  // namespace

std::unique_ptr<TrialSession> make_pipeline_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data) {
  return std::make_unique<PipelineSession>(assignment, std::move(data));
}

}  // namespace dtune
