#include "dtune/distributed/gang_predictions.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "dtune/distributed/gang_link.h"
#include "dtune/distributed/gang_state.h"

namespace dtune {

GangPredictions::GangPredictions(EvaluationBatches batches)
    : batches_(std::move(batches)),
      logits_(static_cast<size_t>(batches_.samples() * batches_.classes())),
      answered_(static_cast<size_t>(batches_.count())) {}

void GangPredictions::clear() {
  std::fill(answered_.begin(), answered_.end(), uint8_t{0});
}

void GangPredictions::check(const Span& span) const {
  const int64_t count = batches_.count();
  if (span.first >= 0 && span.size >= 0 && span.first <= count - span.size) {
    return;
  }
  throw Error(ErrorKind::comm,
              fmt::format("gang: evaluation batches {} to {} of {} were asked "
                          "for (all members must run one version)",
                          span.first, span.first + span.size, count));
}

std::span<float> GangPredictions::logits(const Span& span) {
  const int64_t first = batches_.first(span.first);
  const int64_t last = batches_.first(span.first + span.size);
  return std::span<float>(logits_).subspan(
      static_cast<size_t>(first * batches_.classes()),
      static_cast<size_t>((last - first) * batches_.classes()));
}

void GangPredictions::answer(Network& network, int64_t batch) {
  check({batch, 1});
  const at::Tensor answer = batches_.answer(network, batch);
  const std::span<float> place = logits({batch, 1});
  std::memcpy(place.data(), answer.data_ptr<float>(), place.size_bytes());
  answered_[static_cast<size_t>(batch)] = 1;
}

void GangPredictions::complete(Network& network) {
  for (int64_t batch = 0; batch < batches(); ++batch) {
    if (answered_[static_cast<size_t>(batch)] == 0) answer(network, batch);
  }
}

void GangPredictions::gather(Collective& group, const std::vector<int>& ranks,
                             int leader_rank, const std::vector<Span>& own,
                             Duration patience) {
  if (group.rank() != leader_rank) {
    send(group, leader_rank, own, patience);
    return;
  }
  for (const int rank : ranks) {
    if (rank != leader_rank) receive(group, rank, patience);
  }
}

void GangPredictions::send(Collective& group, int to,
                           const std::vector<Span>& own, Duration patience) {
  const auto count = static_cast<int64_t>(own.size());
  group.send(to, kPredictionsTag, bytes_of_value(count), patience);
  if (count == 0) return;
  group.send(to, kPredictionsTag, std::as_bytes(std::span(own)), patience);
  for (const Span& span : own) {
    if (span.size == 0) continue;
    group.send(to, kPredictionsTag, std::as_bytes(logits(span)), patience);
  }
}

void GangPredictions::receive(Collective& group, int from, Duration patience) {
  int64_t count = 0;
  group.receive(from, kPredictionsTag, writable_bytes_of_value(count),
                patience);
  check({0, count});  // spans are not empty: there are no more than batches
  if (count == 0) return;
  std::vector<Span> spans(static_cast<size_t>(count));
  group.receive(from, kPredictionsTag, std::as_writable_bytes(std::span(spans)),
                patience);
  for (const Span& span : spans) {
    check(span);
    if (span.size == 0) continue;
    group.receive(from, kPredictionsTag, std::as_writable_bytes(logits(span)),
                  patience);
    std::fill_n(answered_.begin() + span.first, span.size, uint8_t{1});
  }
}

Predictions GangPredictions::all() const {
  Predictions predictions(batches_.classes());
  const std::vector<int32_t> labels = batches_.labels();
  predictions.add(logits_, labels);
  return predictions;
}

}  // namespace dtune
