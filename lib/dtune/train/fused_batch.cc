#include "dtune/train/fused_batch.h"

#include <utility>

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
               options_of(*trainers_.front())) {
  make_rows();
  for (size_t row = 0; row < trainers_.size(); ++row) {
    each_.push_back({0, dropout_of(trainers_[row]->layers())});
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
  std::vector<Result> results(trainers_.size());
  const at::Tensor images = gather();
  const at::Tensor logits = network_.forward(images, tape_, pass());
  judge(logits.to(at::kCPU), results);
  network_.backward(logits_gradient(results).to(device_), tape_);
  update(results);
  return results;
}

at::Tensor FusedBatch::gather() {
  std::vector<at::Tensor> images;
  for (Trainer* trainer : trainers_) {
    const BatchRange batch = trainer->next_batch();
    const Span whole{batch.first, batch.size};
    trainer->gather(
        {.epoch = batch.epoch, .number = batch.number, .spans = {&whole, 1}});
    images.push_back(trainer->images().to(device_));
  }
  return at::cat(images, 1);
}

PassContext FusedBatch::pass() {
  for (size_t row = 0; row < trainers_.size(); ++row) {
    each_[row].seed = trainers_[row]->pass().seed;
  }
  return {.training = true, .each = each_};
}

void FusedBatch::judge(const at::Tensor& logits, std::vector<Result>& results) {
  const int64_t classes = trainers_.front()->classes();
  for (size_t row = 0; row < trainers_.size(); ++row) {
    Trainer& trainer = *trainers_[row];
    const int64_t first = classes * static_cast<int64_t>(row);
    results[row].totals =
        trainer.judge(logits.narrow(1, first, classes).contiguous());
    try {
      trainer.check_loss(results[row].totals, trainer.next_batch());
    } catch (const TrialFailure&) {
      results[row].failure = std::current_exception();
    }
  }
}

at::Tensor FusedBatch::logits_gradient(
    const std::vector<Result>& results) const {
  std::vector<at::Tensor> gradients;
  for (size_t row = 0; row < trainers_.size(); ++row) {
    const at::Tensor& own = trainers_[row]->logits_gradient();
    gradients.push_back(results[row].failure ? at::zeros_like(own) : own);
  }
  return at::cat(gradients, 1);
}

// Rows of trainers that have failed are updated too, by nothing.
void FusedBatch::update(std::vector<Result>& results) {
  const at::Tensor gradients = network_.take_gradients();
  const at::Tensor norms =
      gradients.norm(2, /*dim=*/{1}).to(at::kCPU).to(at::kDouble);
  std::vector<const TrainSpec*> trains;
  std::vector<UpdateStep> steps(trainers_.size());
  for (size_t row = 0; row < trainers_.size(); ++row) {
    Trainer& trainer = *trainers_[row];
    trains.push_back(&trainer.train_spec());
    if (results[row].failure) continue;
    try {
      steps[row] = trainer.next_update(trainer.next_batch(),
                                       norms.data_ptr<double>()[row]);
    } catch (const TrialFailure&) {
      results[row].failure = std::current_exception();
    }
  }
  apply_fused_update(
      trains, steps,
      {weights_.rows, gradients, first_.rows, second_.rows, l2_});
  network_.set_weights(weights_.rows);
  for (size_t row = 0; row < trainers_.size(); ++row) {
    Trainer& trainer = *trainers_[row];
    if (!results[row].failure) trainer.updated(trainer.next_batch());
  }
  if (average_weights_.rows.defined()) average(results);
}

void FusedBatch::average(const std::vector<Result>& results) {
  std::vector<double> shares(trainers_.size());
  for (size_t row = 0; row < trainers_.size(); ++row) {
    if (results[row].failure) continue;
    Trainer& trainer = *trainers_[row];
    shares[row] = trainer.average()->share(trainer.optimizer().updates());
  }
  const at::Tensor by = column(shares, device_);
  average_weights_.rows.lerp_(weights_.rows, by.expand_as(weights_.rows));
  const at::Tensor buffers = network_.buffers();
  average_buffers_.rows.lerp_(buffers, by.expand_as(buffers));
}

}  // namespace dtune
