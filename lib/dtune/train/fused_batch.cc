#include "dtune/train/fused_batch.h"

#include <utility>

#include "dtune/nn/mask.h"

namespace dtune {
namespace {

NetworkOptions options_of(Trainer& trainer) {
  return {.compute = compute_type(trainer.train_spec().precision)};
}

}  // namespace

FusedBatch::FusedBatch(std::vector<Trainer*> trainers)
    : trainers_(std::move(trainers)),
      network_(trainers_.front()->layers(), trainers_.front()->image_shape(),
               static_cast<int>(trainers_.size()),
               options_of(*trainers_.front())) {
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

std::vector<FusedBatch::Result> FusedBatch::train() {
  const at::Tensor images = gather();
  std::vector<BatchRange> batches;
  std::vector<JudgedBatch> judged;
  std::vector<uint64_t> seeds;
  std::vector<RowStep> steps;
  for (Trainer* trainer : trainers_) {
    batches.push_back(trainer->next_batch());
    judged.push_back(trainer->judged_batch());
    seeds.push_back(trainer->pass().seed);
    steps.push_back(trainer->next_update(batches.back()));
  }
  const at::Tensor outcome = compute_batch(
      {.images = images,
       .judging = judging_numbers(judged, at::kCPU),
       .masks = batch_mask_keys(dropouts_, seeds, images.size(0), at::kCPU),
       .update = update_numbers(steps, at::kCPU)},
      judging_kinds(judged));
  const auto out = outcome.accessor<double, 2>();
  std::vector<Result> results(trainers_.size());
  for (size_t row = 0; row < trainers_.size(); ++row) {
    trainers_[row]->updated(batches[row]);
    try {
      results[row].totals = trainers_[row]->totals_of(
          batches[row], out[0][row], out[1][row],
          judged[row].loss->weight(judged[row].targets), out[2][row]);
    } catch (const TrialFailure&) {
      results[row].failure = std::current_exception();
    }
  }
  return results;
}

// Rows of trainers that have failed are updated too, without meaning.
// [3, K] float64: losses, correct samples, norms of the gradients.
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

// [n, K C, H, W]: each one's images side by side.
at::Tensor FusedBatch::gather() {
  std::vector<at::Tensor> images;
  for (Trainer* trainer : trainers_) {
    trainer->gather(trainer->next_batch());
    images.push_back(trainer->images());
  }
  return at::cat(images, 1);
}

void FusedBatch::average(const at::Tensor& shares) {
  average_weights_.rows.lerp_(weights_.rows, shares.expand_as(weights_.rows));
  const at::Tensor buffers = network_.buffers();
  average_buffers_.rows.lerp_(buffers, shares.expand_as(buffers));
}

}  // namespace dtune
