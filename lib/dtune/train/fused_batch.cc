#include "dtune/train/fused_batch.h"

#include <utility>

#include "dtune/nn/mask.h"

namespace dtune {
namespace {

NetworkOptions options_of(Trainer& trainer) {
  return {.device = trainer.options().device,
          .compute = compute_type(trainer.train_spec().precision)};
}

}  // namespace

FusedBatch::FusedBatch(std::vector<Trainer*> trainers)
    : trainers_(std::move(trainers)),
      device_(trainers_.front()->options().device),
      network_(trainers_.front()->layers(), trainers_.front()->image_shape(),
               static_cast<int>(trainers_.size()),
               options_of(*trainers_.front())),
      step_(device_, trainers_.front()->train_spec().batch_size,
            trainers_.front()->device_images() != nullptr
                ? make_recording(device_)
                : nullptr) {
  make_rows();
  for (size_t row = 0; row < trainers_.size(); ++row) {
    each_.push_back({0, dropout_of(trainers_[row]->layers())});
  }
  for (const auto& [layer, p] : each_.front().dropout) {
    dropouts_.push_back(layer);
  }
  network_.set_weights(weights_.rows);
  network_.set_buffers(buffers_.rows);
}

void FusedBatch::make_rows() {
  std::vector<at::Tensor> l2;
  for (Trainer* trainer : trainers_) {
    Network& network = trainer->network();
    weights_.own.push_back(network.weights());
    buffers_.own.push_back(network.buffers());
    const std::vector<Optimizer::State> state = trainer->optimizer().state();
    first_.own.push_back(state[0].values);
    if (state.size() > 1) second_.own.push_back(state[1].values);
    if (WeightAverage* average = trainer->average()) {
      average_weights_.own.push_back(average->network().weights());
      average_buffers_.own.push_back(average->network().buffers());
    }
    l2.push_back(l2_tensor(trainer->optimizer().runs(), network.weights()));
  }
  for (Part* part : parts()) part->rows = at::stack(part->own);
  l2_ = at::stack(l2);
}

std::vector<FusedBatch::Part*> FusedBatch::parts() {
  std::vector<Part*> used;
  for (Part* part : {&weights_, &buffers_, &first_, &second_, &average_weights_,
                     &average_buffers_}) {
    if (!part->own.empty()) used.push_back(part);
  }
  return used;
}

void FusedBatch::store(size_t row) {
  buffers_.rows.copy_(network_.buffers());
  for (Part* part : parts()) {
    part->own[row].copy_(part->rows[static_cast<int64_t>(row)]);
  }
}

void FusedBatch::load(size_t row) {
  buffers_.rows.copy_(network_.buffers());
  for (Part* part : parts()) {
    part->rows[static_cast<int64_t>(row)].copy_(part->own[row]);
  }
  network_.set_weights(weights_.rows);
  network_.set_buffers(buffers_.rows);
}

void FusedBatch::train() {
  const at::Tensor images = gather();
  Unread unread;
  std::vector<JudgedBatch> judged;
  std::vector<uint64_t> seeds;
  std::vector<RowStep> steps;
  for (Trainer* trainer : trainers_) {
    unread.batches.push_back(trainer->next_batch());
    judged.push_back(trainer->judged_batch());
    unread.weights.push_back(judged.back().loss->weight(judged.back().targets));
    seeds.push_back(trainer->pass().seed);
    steps.push_back(trainer->next_update(unread.batches.back()));
  }
  const auto compute =
      [this, kinds = judging_kinds(judged)](const StepInputs& inputs) {
        return compute_batch(inputs, kinds);
      };
  unread.outcome = step_.run(
      {.images = images,
       .judging = judging_numbers(judged, device_),
       .masks = batch_mask_keys(dropouts_, seeds, images.size(0), device_),
       .update = update_numbers(steps, device_)},
      compute);
  for (size_t row = 0; row < trainers_.size(); ++row) {
    trainers_[row]->updated(unread.batches[row]);
  }
  unread_.push_back(std::move(unread));
}

// Rows of trainers that have failed are updated too, without meaning.
at::Tensor FusedBatch::compute_batch(const StepInputs& inputs,
                                     const JudgingKinds& kinds) {
  const PassContext pass{.training = true,
                         .each = each_,
                         .mask_keys = masks_by_layer(inputs, dropouts_)};
  const at::Tensor logits = network_.forward(inputs.images, tape_, pass);
  const auto rows = static_cast<int64_t>(trainers_.size());
  const DeviceLosses losses =
      device_losses(logits.view({logits.size(0), rows, -1}).transpose(0, 1),
                    inputs.judging, kinds);
  network_.backward(losses.gradients.transpose(0, 1).reshape(logits.sizes()),
                    tape_);
  const at::Tensor gradients = network_.take_gradients();
  const at::Tensor norms = clip_and_update(
      inputs.update,
      {weights_.rows, gradients, first_.rows, second_.rows, l2_});
  network_.set_weights(weights_.rows);
  if (average_weights_.rows.defined()) average(average_shares(inputs.update));
  return at::stack({losses.losses, losses.correct, norms});
}

std::vector<FusedBatch::Result> FusedBatch::settle() {
  std::vector<Result> results(trainers_.size());
  if (unread_.empty()) return results;
  std::vector<at::Tensor> outcomes;
  for (const Unread& one : unread_) outcomes.push_back(one.outcome);
  const at::Tensor all = at::stack(outcomes).to(at::kCPU);
  const auto read = all.accessor<double, 3>();
  for (size_t row = 0; row < trainers_.size(); ++row) {
    if (trainers_[row] == nullptr) continue;
    try {
      for (size_t i = 0; i < unread_.size(); ++i) {
        const auto& [batches, weights, outcome] = unread_[i];
        results[row].totals += trainers_[row]->totals_of(
            batches[row], read[i][0][row], read[i][1][row], weights[row],
            read[i][2][row]);
      }
    } catch (const TrialFailure&) {
      results[row].failure = std::current_exception();
    }
  }
  unread_.clear();
  return results;
}

// [n, K C, H, W]: each one's images side by side.
at::Tensor FusedBatch::gather() {
  for (Trainer* trainer : trainers_) trainer->gather(trainer->next_batch());
  DeviceImages* images = trainers_.front()->device_images();
  std::vector<PlannedImage> plan;
  for (Trainer* trainer : trainers_) {
    DeviceImages* own = trainer->device_images();
    if (images == nullptr || own == nullptr || !images->equals(*own)) {
      return gather_apart();
    }
    plan.insert(plan.end(), trainer->plan().begin(), trainer->plan().end());
  }
  const at::Tensor all = images->make(plan);
  const auto rows = static_cast<int64_t>(trainers_.size());
  return all
      .view({rows, all.size(0) / rows, all.size(1), all.size(2), all.size(3)})
      .transpose(0, 1)
      .flatten(1, 2)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor FusedBatch::gather_apart() {
  std::vector<at::Tensor> images;
  for (Trainer* trainer : trainers_) {
    images.push_back(trainer->images().to(device_));
  }
  return at::cat(images, 1);
}

void FusedBatch::average(const at::Tensor& shares) {
  average_weights_.rows.lerp_(weights_.rows, shares.expand_as(weights_.rows));
  const at::Tensor buffers = network_.buffers();
  average_buffers_.rows.lerp_(buffers, shares.expand_as(buffers));
}

}  // namespace dtune
