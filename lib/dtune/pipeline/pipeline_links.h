// What the stages of a pipeline send each other: tensors of known shape, each
// with a tag that says which, and a deadline on every wait.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "dtune/comm/collective.h"
#include "dtune/pipeline/pipeline_schedule.h"

namespace dtune {

// A member's place among the `replicas` pipelines of a gang: member =
// replica * stages + stage.
struct PipelinePlace {
  StagePlace stage;
  int replica = 0;
  int replicas = 1;

  int member_of(int stage_number, int replica_number) const {
    return replica_number * stage.stages + stage_number;
  }
  int member() const { return member_of(stage.stage, replica); }
  int previous() const { return member() - 1; }
  int next() const { return member() + 1; }
  int members() const { return stage.stages * replicas; }
  bool leader() const { return member() == 0; }
};

struct PipelineMessage {
  enum class Kind {
    activation = 1,  // to the next stage
    gradient,        // of it, back
    totals,          // loss and answers of a batch
    norm,            // of a stage's gradient
    logits,          // answers of an evaluation batch
    state,           // one of a stage's tensors
    probe,           // a measurement
  };
  Kind kind = Kind::activation;
  int64_t batch = 0;
  int64_t micro = 0;
};

// kind (3 bits), batch (17) and micro (12), each modulo its range: messages of
// equal tags are matched in their order, so wrapping does no harm.
uint32_t tag_of(const PipelineMessage& message);

// A transfer with its memory. Destroyed before it was waited for, it breaks the
// group.
struct PipelineTransfer {
  std::unique_ptr<Transfer> transfer;
  at::Tensor memory;  // on the CPU, dense
  int peer = 0;
  PipelineMessage message;
  bool receives = false;
};

// Not thread-safe. The group (rank = member) must outlive this.
class PipelineLinks {
 public:
  PipelineLinks(Collective& group, const PipelinePlace& place,
                Duration patience)
      : group_(group), place_(place), patience_(patience) {}

  const PipelinePlace& place() const { return place_; }

  // `data` may be on any device; images travel channels-last.
  PipelineTransfer start_send(int to, const PipelineMessage& message,
                              const at::Tensor& data);
  // `memory`: on the CPU, dense (channels-last if it has four dimensions).
  PipelineTransfer start_receive(int from, const PipelineMessage& message,
                                 const at::Tensor& memory);

  // Throws Error(comm) that says which message of which batch did not come from
  // which stage and member, and what the group knows of it.
  void wait(PipelineTransfer& transfer);

 private:
  [[noreturn]] void fail(const PipelineTransfer& transfer,
                         const Error& error) const;

  Collective& group_;
  PipelinePlace place_;
  Duration patience_;
};

}  // namespace dtune
