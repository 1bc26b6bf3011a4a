#include "dtune/pipeline/pipeline_links.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "dtune/nn/channels_last.h"

namespace dtune {
namespace {

constexpr int kMicroBits = 12;
constexpr int kBatchBits = 17;

uint32_t low_bits(int64_t number, int bits) {
  return static_cast<uint32_t>(static_cast<uint64_t>(number) &
                               ((uint64_t{1} << bits) - 1));
}

at::Tensor for_the_wire(const at::Tensor& data) {
  const at::Tensor dense =
      data.dim() == 4 ? channels_last(data) : data.contiguous();
  return dense.to(at::kCPU);
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

std::string name_of(const PipelineMessage& message) {
  using Kind = PipelineMessage::Kind;
  switch (message.kind) {
    case Kind::activation:
      return fmt::format("the activations of micro-batch {} (batch {})",
                         message.micro + 1, message.batch + 1);
    case Kind::gradient:
      return fmt::format("the gradient of micro-batch {} (batch {})",
                         message.micro + 1, message.batch + 1);
    case Kind::totals:
      return fmt::format("the loss of batch {}", message.batch + 1);
    case Kind::norm:
      return fmt::format("the gradient's norm of batch {}", message.batch + 1);
    case Kind::logits:
      return fmt::format("the answers to evaluation batch {}",
                         message.micro + 1);
    case Kind::state:
      return "its weights and their state";
    case Kind::probe:
      return "a probe of the network's speed";
  }
  return "a message";
}

}  // namespace

uint32_t tag_of(const PipelineMessage& message) {
  const auto kind = static_cast<uint32_t>(message.kind);
  return (kind << (kBatchBits + kMicroBits)) |
         (low_bits(message.batch, kBatchBits) << kMicroBits) |
         low_bits(message.micro, kMicroBits);
}

PipelineTransfer PipelineLinks::start_send(int to,
                                           const PipelineMessage& message,
                                           const at::Tensor& data) {
  PipelineTransfer sent{nullptr, for_the_wire(data), to, message, false};
  try {
    sent.transfer =
        group_.start_send(to, tag_of(message), bytes_of(sent.memory));
  } catch (const Error& error) {
    fail(sent, error);
  }
  return sent;
}

PipelineTransfer PipelineLinks::start_receive(int from,
                                              const PipelineMessage& message,
                                              const at::Tensor& memory) {
  PipelineTransfer received{nullptr, memory, from, message, true};
  try {
    received.transfer =
        group_.start_receive(from, tag_of(message), bytes_of(memory));
  } catch (const Error& error) {
    fail(received, error);
  }
  return received;
}

void PipelineLinks::wait(PipelineTransfer& transfer) {
  if (transfer.transfer == nullptr) return;
  const std::unique_ptr<Transfer> waited = std::move(transfer.transfer);
  try {
    waited->wait(patience_);
  } catch (const Error& error) {
    fail(transfer, error);
  }
}

void PipelineLinks::fail(const PipelineTransfer& transfer,
                         const Error& error) const {
  const int stages = place_.stage.stages;
  throw Error(
      ErrorKind::comm,
      fmt::format("pipeline: stage {} of {} (member {}) {} {} {} member {} "
                  "(stage {}{}): {}",
                  place_.stage.stage + 1, stages, place_.member(),
                  transfer.receives ? "did not get" : "could not send",
                  name_of(transfer.message), transfer.receives ? "from" : "to",
                  transfer.peer, transfer.peer % stages + 1,
                  place_.replicas > 1 ? fmt::format(" of pipeline {}",
                                                    transfer.peer / stages + 1)
                                      : "",
                  error.what()));
}

}  // namespace dtune
