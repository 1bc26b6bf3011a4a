#include "dtune/pipeline/pipeline_trainer.h"

#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace dtune {
namespace {

// Micro-batches a stage where the recipe does not say (GPipe, 3.3: the bubble
// is small from four a stage on).
constexpr int kMicroBatchesPerStage = 4;

std::vector<LayerSpec> all_layers(const Recipe& recipe,
                                  const PreparedData& data) {
  return layers_for(recipe.model, data);
}

PipelineStageOptions stage_options(const Recipe& recipe,
                                   const TrainerOptions& options) {
  return {.schedule = recipe.parallel.pipeline.schedule,
          .recompute = recipe.parallel.pipeline.recompute,
          .network = {.device = options.device,
                      .init_seed = seed_for(options.seed, "weights"),
                      .compute = compute_type(recipe.train.precision)}};
}

template <typename T>
std::span<T> pipeline_span_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::remove_const_t<T>>(),
          static_cast<size_t>(tensor.numel())};
}

// Small micro-batches cost more than the bubble that they fill: where their
// number is ours to choose, they are no smaller than this.
constexpr int64_t kUsefulMicroBatch = 16;

int64_t least_micro_batch(const Recipe& recipe, const PreparedData& data) {
  if (recipe.parallel.pipeline.micro_batches == 0) return kUsefulMicroBatch;
  return has_batch_norm(all_layers(recipe, data)) ? 2 : 1;
}

}  // namespace

int micro_batches_of(const PipelineSpec& spec, int stages) {
  return spec.micro_batches > 0 ? spec.micro_batches
                                : kMicroBatchesPerStage * stages;
}

PipelineTrainer::PipelineTrainer(const Recipe& recipe,
                                 const TrainerOptions& options,
                                 std::shared_ptr<const PreparedData> data,
                                 const PipelinePlace& place,
                                 std::vector<int> first_layer,
                                 PipelineWatch watch)
    : train_(recipe.train),
      augment_(recipe.data.augment),
      options_(options),
      spec_(recipe.parallel.pipeline),
      place_(place),
      classes_(data->classes()),
      source_(data, training_splits(options.with_validation),
              normalization_of(*data, recipe.data.normalize)),
      order_(source_.count(), recipe.train.batch_size,
             seed_for(options.seed, "order")),
      loss_(recipe.train, classes_, class_weights(recipe.data, source_)),
      architecture_(architecture_of(recipe, *data)),
      least_(least_micro_batch(recipe, *data)),
      slices_(slices_of_stages(all_layers(recipe, *data), data->image_shape(),
                               first_layer)),
      stage_(layers_of_stage(all_layers(recipe, *data), data->image_shape(),
                             first_layer, place.stage.stage),
             place.stage, stage_options(recipe, options), std::move(watch)),
      optimizer_(recipe.train, stage_.network()) {
  if (train_.ema > 0) average_.emplace(train_.ema, stage_.make_network());
}

void PipelineTrainer::attach(const PipelineGroups& groups) {
  DTUNE_CHECK(groups.all->rank() == place_.member());
  DTUNE_CHECK(place_.replicas == 1 || groups.same_stage != nullptr);
  groups_ = groups;
  links_.emplace(*groups.all, place_, groups.patience);
}

void PipelineTrainer::abandon() {
  totals_sent_.clear();
  stage_.abandon();
  links_.reset();
  groups_ = {};
}

void PipelineTrainer::check_attached() const { DTUNE_CHECK(links_); }

LossTotals PipelineTrainer::train_to(int64_t end, const std::atomic<bool>& stop,
                                     const Trainer::AfterBatch& after_batch) {
  check_attached();
  LossTotals totals;
  while (position_ < end) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    const BatchRange batch = order_.at(position_);
    totals += train_batch(batch);
    if (after_batch) after_batch(position_);
  }
  finish_messages();
  average_buffers();
  return totals;
}

LossTotals PipelineTrainer::train_batch(const BatchRange& batch) {
  LossTotals own;
  run_stage(batch, own);
  const LossTotals totals = share_totals(batch, own);
  if (!std::isfinite(totals.loss)) {
    finish_messages();
    throw diverged("training loss", totals.loss, train_, progress(), batch);
  }
  sum_over_replicas(stage_.network().gradients());
  const double norm = whole_norm(batch);
  const MonoTime begin = system_clock().now();
  if (!optimizer_.update(learning_rate(train_, progress(), batch), norm)) {
    finish_messages();
    throw diverged("gradient's norm", norm, train_, progress(), batch);
  }
  if (average_) average_->add(stage_.network(), optimizer_.updates());
  times_.update += to_seconds(system_clock().now() - begin);
  times_.samples += part_of(batch).size;
  position_ += batch.size;
  return totals;
}

// This replica's samples of the batch.
MicroBatch PipelineTrainer::part_of(const BatchRange& batch) const {
  const int64_t first = batch.size * place_.replica / place_.replicas;
  const int64_t end = batch.size * (place_.replica + 1) / place_.replicas;
  return {first, end - first};
}

void PipelineTrainer::run_stage(const BatchRange& batch, LossTotals& own) {
  const MicroBatch part = part_of(batch);
  PipelineBatch work{
      .number = batch.number,
      .pass = training_pass(options_.seed, batch.number),
      .micros = cut_into_micro_batches(
          part.size, micro_batches_of(spec_, place_.stage.stages), least_)};
  work.pass.first_sample = part.first;
  if (place_.stage.last()) read_targets(batch);
  const auto micro_at = [&](int micro) {
    MicroBatch found = work.micros[static_cast<size_t>(micro)];
    found.first += part.first;
    return found;
  };
  const PipelineEnds ends{
      .input = [&](int micro) { return gather_images(batch, micro_at(micro)); },
      .loss =
          [&](int micro, const at::Tensor& logits) {
            return loss_gradient(micro_at(micro), logits, own);
          }};
  stage_.train(work, *links_, ends);
}

void PipelineTrainer::read_targets(const BatchRange& batch) {
  const std::span<const uint32_t> samples = order_.samples(batch);
  labels_.resize(samples.size());
  source_.labels(samples, labels_);
  mix_ = {};
  source_.append_mix(samples, augment_key(batch.epoch), mix_);
  weight_ = loss_.weight(targets());
}

Targets PipelineTrainer::targets() const {
  if (mix_.others.empty()) return labels_;
  return {labels_, mix_.others, mix_.shares};
}

AugmentKey PipelineTrainer::augment_key(int64_t epoch) const {
  return {augment_, seed_for(options_.seed, "augment"), epoch};
}

at::Tensor PipelineTrainer::gather_images(const BatchRange& batch,
                                          const MicroBatch& micro) {
  const MonoTime begin = system_clock().now();
  const MicroBatch part = part_of(batch);
  if (!images_.defined() || images_.size(0) < part.size) {
    images_ = batch_tensor(part.size, source_.image_shape());
  }
  const at::Tensor images =
      images_.narrow(0, micro.first - part.first, micro.size);
  std::vector<int32_t> labels(static_cast<size_t>(micro.size));
  source_.gather(order_.samples(batch).subspan(static_cast<size_t>(micro.first),
                                               static_cast<size_t>(micro.size)),
                 augment_key(batch.epoch), pipeline_span_of<float>(images),
                 labels);
  times_.data += to_seconds(system_clock().now() - begin);
  return images.to(options_.device);
}

// Micro-losses are weighted by their share of the batch's weight, so their sum
// is the batch's loss.
at::Tensor PipelineTrainer::loss_gradient(const MicroBatch& micro,
                                          const at::Tensor& logits,
                                          LossTotals& totals) {
  const at::Tensor answers = logits.to(at::kCPU).contiguous();
  at::Tensor gradient = at::empty_like(answers);
  const LossTotals part = loss_(pipeline_span_of<const float>(answers),
                                targets().part(static_cast<size_t>(micro.first),
                                               static_cast<size_t>(micro.size)),
                                pipeline_span_of<float>(gradient));
  if (weight_ > 0) gradient.mul_(part.weight / weight_);
  totals += part;
  return gradient.to(options_.device);
}

// From the last stages to all, which add them up in one order. A stage's
// last backward comes after all losses, so this seldom waits.
LossTotals PipelineTrainer::share_totals(const BatchRange& batch,
                                         const LossTotals& own) {
  const PipelineMessage message{PipelineMessage::Kind::totals, batch.number, 0};
  wait_for_totals();  // of the batch before
  if (place_.stage.last()) {
    const std::array<double, 4> sums = {own.loss, own.weight,
                                        static_cast<double>(own.correct),
                                        static_cast<double>(own.samples)};
    const at::Tensor sent = at::tensor(sums, at::kDouble);
    for (int member = 0; member < place_.members(); ++member) {
      if (member == place_.member()) continue;
      totals_sent_.push_back(links_->start_send(member, message, sent));
    }
  }
  LossTotals totals;
  for (int replica = 0; replica < place_.replicas; ++replica) {
    const int from = place_.member_of(place_.stage.stages - 1, replica);
    if (from == place_.member()) {
      totals += own;
      continue;
    }
    PipelineTransfer received =
        links_->start_receive(from, message, at::empty({4}, at::kDouble));
    links_->wait(received);
    const auto* sums = received.memory.data_ptr<double>();
    totals += LossTotals{.loss = sums[0],
                         .weight = sums[1],
                         .correct = std::llround(sums[2]),
                         .samples = std::llround(sums[3])};
  }
  return totals;
}

void PipelineTrainer::wait_for_totals() {
  for (PipelineTransfer& transfer : totals_sent_) links_->wait(transfer);
  totals_sent_.clear();
}

// So that no message of those that stop here is missed.
void PipelineTrainer::finish_messages() {
  stage_.flush(*links_);
  wait_for_totals();
}

void PipelineTrainer::sum_over_replicas(at::Tensor& values) {
  if (place_.replicas == 1 || values.numel() == 0) return;
  const MonoTime begin = system_clock().now();
  at::Tensor host = values.to(at::kCPU);  // itself where it is there
  groups_.same_stage->all_reduce(pipeline_span_of<float>(host),
                                 groups_.patience);
  if (!values.is_cpu()) values.copy_(host);
  times_.exposed += to_seconds(system_clock().now() - begin);
}

// Of all stages' gradients; the same on all members.
double PipelineTrainer::whole_norm(const BatchRange& batch) {
  const PipelineMessage message{PipelineMessage::Kind::norm, batch.number, 0};
  const auto norm = stage_.network().gradients().norm().item<double>();
  const at::Tensor own = at::full({1}, norm * norm, at::kDouble);
  std::vector<PipelineTransfer> sent;
  std::vector<PipelineTransfer> received;
  for (int stage = 0; stage < place_.stage.stages; ++stage) {
    if (stage == place_.stage.stage) continue;
    const int peer = place_.member_of(stage, place_.replica);
    sent.push_back(links_->start_send(peer, message, own));
    received.push_back(
        links_->start_receive(peer, message, at::empty({1}, at::kDouble)));
  }
  double sum = 0;
  size_t next = 0;
  for (int stage = 0; stage < place_.stage.stages; ++stage) {
    if (stage == place_.stage.stage) {
      sum += norm * norm;
      continue;
    }
    links_->wait(received[next]);
    sum += received[next++].memory.item<double>();
  }
  for (PipelineTransfer& transfer : sent) links_->wait(transfer);
  return std::sqrt(sum);
}

void PipelineTrainer::average_buffers() {
  average_over_replicas(stage_.network().buffers());
  if (average_) average_over_replicas(average_->network().buffers());
}

void PipelineTrainer::average_over_replicas(at::Tensor& buffers) {
  if (place_.replicas == 1 || buffers.numel() == 0) return;
  sum_over_replicas(buffers);
  buffers.div_(place_.replicas);
}

gang::RoundTimes PipelineTrainer::take_times() {
  gang::RoundTimes times = std::exchange(times_, gang::RoundTimes());
  const gang::RoundTimes stage = stage_.take_times();
  times.forward += stage.forward;
  times.backward += stage.backward;
  times.waiting += stage.waiting;
  return times;
}

uint64_t PipelineTrainer::resident_bytes() {
  uint64_t bytes = stage_.network().gradients().nbytes();
  for (const NamedTensor& tensor : state().tensors) {
    bytes += tensor.values.nbytes();
  }
  if (images_.defined()) bytes += images_.nbytes();
  return bytes + static_cast<uint64_t>(count()) * sizeof(uint32_t);
}

}  // namespace dtune
