// The part of PipelineTrainer that judges.
#include <span>
#include <vector>

#include "dtune/nn/host_span.h"
#include "dtune/pipeline/pipeline_trainer.h"

namespace dtune {
namespace {

// Predictions of evaluation batches under way to the leader.
constexpr size_t kMostPredictionsUnderWay = 4;

PipelineMessage logits_of(int64_t batch) {
  return {PipelineMessage::Kind::logits, 0, batch};
}

}  // namespace

// Batches go to the replicas in turn; each is answered by its last stage.
std::optional<Predictions> PipelineTrainer::answer(
    EvaluationBatches& batches, const std::atomic<bool>& stop) {
  check_attached();
  std::vector<at::Tensor> logits(static_cast<size_t>(batches.count()));
  std::vector<PipelineTransfer> received = expect_logits(batches, logits);
  answer_own(batches, stop, logits);
  if (!place_.leader()) return std::nullopt;
  for (PipelineTransfer& transfer : received) links_->wait(transfer);
  const std::vector<int32_t> labels = batches.labels();
  Predictions predictions(classes_);
  for (int64_t batch = 0; batch < batches.count(); ++batch) {
    predictions.add(
        floats(logits[static_cast<size_t>(batch)]),
        std::span(labels).subspan(static_cast<size_t>(batches.first(batch)),
                                  static_cast<size_t>(batches.size(batch))));
  }
  return predictions;
}

std::vector<PipelineTransfer> PipelineTrainer::expect_logits(
    EvaluationBatches& batches, std::vector<at::Tensor>& logits) {
  std::vector<PipelineTransfer> received;
  if (!place_.leader()) return received;
  for (int64_t batch = 0; batch < batches.count(); ++batch) {
    const auto replica = static_cast<int>(batch % place_.replicas);
    const int from = place_.member_of(place_.stage.stages - 1, replica);
    if (from == place_.member()) continue;
    at::Tensor& memory = logits[static_cast<size_t>(batch)];
    memory = at::empty({batches.size(batch), classes_}, at::kFloat);
    received.push_back(links_->start_receive(from, logits_of(batch), memory));
  }
  return received;
}

void PipelineTrainer::answer_own(EvaluationBatches& batches,
                                 const std::atomic<bool>& stop,
                                 std::vector<at::Tensor>& logits) {
  std::vector<PipelineTransfer> sent;
  for (int64_t batch = place_.replica; batch < batches.count();
       batch += place_.replicas) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    const at::Tensor x =
        place_.stage.first() ? batches.images(batch) : at::Tensor();
    const at::Tensor y =
        stage_.answer(judged(), batch, batches.size(batch), x, *links_);
    if (!place_.stage.last()) continue;
    if (place_.leader()) {
      logits[static_cast<size_t>(batch)] = y.to(at::kCPU).contiguous();
      continue;
    }
    if (sent.size() == kMostPredictionsUnderWay) {
      links_->wait(sent.front());
      sent.erase(sent.begin());
    }
    sent.push_back(links_->start_send(0, logits_of(batch), y));
  }
  stage_.flush(*links_);
  for (PipelineTransfer& transfer : sent) links_->wait(transfer);
}

}  // namespace dtune
