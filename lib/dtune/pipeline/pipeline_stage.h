// One stage of a pipeline: some of a network's layers, and how micro-batches go
// through them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "dtune/gang/messages.h"
#include "dtune/nn/network.h"
#include "dtune/pipeline/pipeline_layout.h"
#include "dtune/pipeline/pipeline_links.h"
#include "dtune/pipeline/pipeline_schedule.h"

namespace dtune {

// One replica's part of a batch.
struct PipelineBatch {
  int64_t number = 0;              // of the batch: for tags
  PassContext pass;                // first_sample: of this replica's part
  std::vector<MicroBatch> micros;  // of its samples; may be none
};

// What the two ends of a pipeline do; unused by the stages between.
struct PipelineEnds {
  // First stage: the input of a micro-batch, on the stage's device.
  std::function<at::Tensor(int micro)> input;
  // Last stage: the gradient of the batch's loss by these logits.
  std::function<at::Tensor(int micro, const at::Tensor& logits)> loss;
};

// Observers of a stage; all may be empty.
struct PipelineWatch {
  std::function<void(const char* phase, int64_t number)> phase;
  // Something is done: "forward", "backward", "evaluate", "wait" of `number`.
  std::function<void(const char* name, int64_t number, MonoTime begin,
                     MonoTime end)>
      span;
};

struct PipelineStageOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  // Keeps a micro-batch's input instead of its activations, which are computed
  // again before its backward, with the same dropout masks. Costs a forward.
  bool recompute = false;
  NetworkOptions network;
};

// Gradients are those of the whole network on the whole batch, to rounding,
// where no layer looks across samples. Batch norm does: it normalises every
// micro-batch by that one's own statistics, and its running statistics move
// with every micro-batch (once, also where activations are recomputed).
//
// Not thread-safe. Throws Error(comm) as PipelineLinks; the stage must be made
// anew then, or its weights be set and its gradients zeroed.
class PipelineStage {
 public:
  // REQUIRES: place says which of the stages these layers are.
  PipelineStage(StageLayers layers, const StagePlace& place,
                const PipelineStageOptions& options, PipelineWatch watch);

  Network& network() { return network_; }

  // Takes the batch's micro-batches forward and backward in the order of the
  // schedule; adds to network().gradients(). The last stage's `loss` scales
  // micro-losses by their share of the batch. Returns when this stage is done;
  // its last messages may still be under way.
  void train(const PipelineBatch& batch, PipelineLinks& links,
             const PipelineEnds& ends);

  // Forward of `judged`, network() or one of its layers, without a tape: x is
  // undefined where it comes from the stage before. Returns the logits on the
  // last stage, else undefined.
  at::Tensor answer(Network& judged, int64_t batch, int64_t samples,
                    const at::Tensor& x, PipelineLinks& links);

  // Another network of the same layers and the same weights as at the start.
  Network make_network() const;

  // Waits for the messages that are still under way.
  void flush(PipelineLinks& links);

  // Gives up what is under way, before its group goes; gradients are zero.
  void abandon();

  // Seconds since the last call: forward (with recomputed ones' time under
  // backward), backward, waiting; other fields are 0.
  gang::RoundTimes take_times();

 private:
  struct Micro {  // of the batch in work
    PipelineTransfer input;
    PipelineTransfer gradient;
    PipelineTransfer output;
    at::Tensor held;     // the input, to compute activations again
    at::Tensor dlogits;  // last stage
  };
  struct Running;

  void post_receives(Running& run, size_t task);
  void forward(Running& run, size_t task);
  void backward(Running& run, size_t task);
  at::Tensor input_of(Running& run, int micro);
  at::Tensor gradient_of(Running& run, int micro);
  at::Tensor receive(PipelineTransfer& transfer, PipelineLinks& links);
  PassContext pass_of(const Running& run, int micro) const;
  Tape& tape_of(int micro);
  void phase(const char* text, int64_t number);
  double finish_span(const char* name, int64_t number, MonoTime begin);

  StageLayers layers_;
  StagePlace place_;
  PipelineStageOptions options_;
  PipelineWatch watch_;
  Network network_;
  std::vector<Tape> tapes_;             // as many as are in flight
  std::vector<Micro> micros_;           // of the batch in work
  std::vector<at::Tensor> in_buffers_;  // by micro-batch, used again
  std::vector<at::Tensor> back_buffers_;
  std::vector<PipelineTransfer> sent_;  // gradients, until the next batch; and
                                        // answers
  gang::RoundTimes times_;
};

}  // namespace dtune
