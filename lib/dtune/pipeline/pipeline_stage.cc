#include "dtune/pipeline/pipeline_stage.h"

#include <algorithm>
#include <utility>

#include "dtune/nn/buffer.h"

namespace dtune {
namespace {

// Receives are posted this many tasks ahead, so that messages travel while the
// stage computes: the next forward's and the next backward's.
constexpr size_t kAhead = 3;
// Predictions under way to the next stage: more would only fill its memory.
constexpr size_t kMostPassedOn = 4;

std::vector<int64_t> sizes_of(int64_t samples, const Shape& shape) {
  if (shape.flat) return {samples, shape.elements()};
  return {samples, shape.channels, shape.height, shape.width};
}

}  // namespace

// What one call of train works on.
struct PipelineStage::Running {
  const PipelineBatch& batch;
  PipelineLinks& links;
  const PipelineEnds& ends;
  std::vector<PipelineTask> tasks;
  size_t posted = 0;  // tasks whose receives have been posted
};

PipelineStage::PipelineStage(StageLayers layers, const StagePlace& place,
                             const PipelineStageOptions& options,
                             PipelineWatch watch)
    : layers_(std::move(layers)),
      place_(place),
      options_(options),
      watch_(std::move(watch)),
      network_(layers_.layers, layers_.input, options.network) {}

void PipelineStage::train(const PipelineBatch& batch, PipelineLinks& links,
                          const PipelineEnds& ends) {
  const size_t count = batch.micros.size();
  Running run{
      batch, links, ends,
      pipeline_schedule(options_.schedule, place_, static_cast<int>(count))};
  micros_.clear();
  micros_.resize(count);
  in_buffers_.resize(std::max(in_buffers_.size(), count));
  back_buffers_.resize(in_buffers_.size());
  const auto in_flight = static_cast<size_t>(most_in_flight(run.tasks));
  tapes_.resize(std::max<size_t>(1, in_flight));
  for (size_t task = 0; task < run.tasks.size(); ++task) {
    post_receives(run, task);
    if (run.tasks[task].direction == PassDirection::forward) {
      forward(run, task);
    } else {
      backward(run, task);
    }
  }
}

void PipelineStage::post_receives(Running& run, size_t task) {
  const size_t end = std::min(run.tasks.size(), task + kAhead);
  for (; run.posted < end; ++run.posted) {
    const PipelineTask& next = run.tasks[run.posted];
    const auto at = static_cast<size_t>(next.micro);
    const int64_t samples = run.batch.micros[at].size;
    if (next.direction == PassDirection::forward && !place_.first()) {
      micros_[at].input = run.links.start_receive(
          run.links.place().previous(),
          {PipelineMessage::Kind::activation, run.batch.number, next.micro},
          reuse_buffer(in_buffers_[at], sizes_of(samples, layers_.input)));
    }
    if (next.direction == PassDirection::backward && !place_.last()) {
      micros_[at].gradient = run.links.start_receive(
          run.links.place().next(),
          {PipelineMessage::Kind::gradient, run.batch.number, next.micro},
          reuse_buffer(back_buffers_[at], sizes_of(samples, layers_.output)));
    }
  }
}

void PipelineStage::forward(Running& run, size_t task) {
  const int micro = run.tasks[task].micro;
  Micro& state = micros_[static_cast<size_t>(micro)];
  at::Tensor x = input_of(run, micro);
  phase("forward micro", micro);
  const MonoTime begin = system_clock().now();
  // What goes back at once keeps its activations.
  const PipelineTask back{PassDirection::backward, micro};
  const bool keep = !options_.recompute || run.tasks[task + 1] == back;
  const at::Tensor y = network_.forward(x, keep ? &tape_of(micro) : nullptr,
                                        pass_of(run, micro));
  if (!keep) state.held = std::move(x);
  if (place_.last()) {
    state.dlogits = run.ends.loss(micro, y);
  } else {
    state.output = run.links.start_send(
        run.links.place().next(),
        {PipelineMessage::Kind::activation, run.batch.number, micro}, y);
  }
  times_.forward += finish_span("forward", micro, begin);
}

void PipelineStage::backward(Running& run, size_t task) {
  const int micro = run.tasks[task].micro;
  Micro& state = micros_[static_cast<size_t>(micro)];
  const at::Tensor dy = gradient_of(run, micro);
  phase("backward micro", micro);
  const MonoTime begin = system_clock().now();
  Tape& tape = tape_of(micro);
  if (state.held.defined()) {
    PassContext again = pass_of(run, micro);
    again.repeated = true;
    network_.forward(state.held, &tape, again);
    state.held.reset();
  }
  const at::Tensor dx = network_.backward(dy, tape, !place_.first());
  if (!place_.first()) {
    sent_.push_back(run.links.start_send(
        run.links.place().previous(),
        {PipelineMessage::Kind::gradient, run.batch.number, micro}, dx));
  }
  times_.backward += finish_span("backward", micro, begin);
}

at::Tensor PipelineStage::input_of(Running& run, int micro) {
  if (place_.first()) return run.ends.input(micro);
  const at::Tensor x =
      receive(micros_[static_cast<size_t>(micro)].input, run.links);
  // The stage before is in this batch: it has the gradients of the last one.
  if (!sent_.empty() && sent_.front().message.batch != run.batch.number) {
    flush(run.links);
  }
  return x;
}

at::Tensor PipelineStage::gradient_of(Running& run, int micro) {
  Micro& state = micros_[static_cast<size_t>(micro)];
  if (place_.last()) return std::exchange(state.dlogits, at::Tensor());
  const at::Tensor dy = receive(state.gradient, run.links);
  run.links.wait(state.output);  // has come: the gradient is its answer
  state.output.memory.reset();
  return dy;
}

at::Tensor PipelineStage::receive(PipelineTransfer& transfer,
                                  PipelineLinks& links) {
  phase(transfer.message.kind == PipelineMessage::Kind::gradient
            ? "waiting for the gradient of micro"
            : "waiting for the activations of micro",
        transfer.message.micro);
  const MonoTime begin = system_clock().now();
  links.wait(transfer);
  times_.waiting += finish_span("wait", transfer.message.micro, begin);
  return std::exchange(transfer.memory, at::Tensor())
      .to(options_.network.device);
}

Network PipelineStage::make_network() const {
  return {layers_.layers, layers_.input, options_.network};
}

at::Tensor PipelineStage::answer(Network& judged, int64_t batch,
                                 int64_t samples, const at::Tensor& x,
                                 PipelineLinks& links) {
  const PipelineMessage message{PipelineMessage::Kind::activation, 0, batch};
  at::Tensor input = x;
  if (!place_.first()) {
    PipelineTransfer received = links.start_receive(
        links.place().previous(), message,
        at::empty(sizes_of(samples, layers_.input), at::kFloat,
                  layers_.input.flat ? at::MemoryFormat::Contiguous
                                     : at::MemoryFormat::ChannelsLast));
    input = receive(received, links);
  }
  phase("evaluating batch", batch);
  const MonoTime begin = system_clock().now();
  at::Tensor y = judged.forward(input, nullptr, PassContext{});
  times_.forward += finish_span("evaluate", batch, begin);
  if (y.is_alias_of(input)) y = y.clone();  // the input is used again
  if (place_.last()) return y;
  if (sent_.size() >= kMostPassedOn) {
    links.wait(sent_.front());
    sent_.erase(sent_.begin());
  }
  sent_.push_back(links.start_send(links.place().next(), message, y));
  return {};
}

void PipelineStage::flush(PipelineLinks& links) {
  for (PipelineTransfer& transfer : sent_) links.wait(transfer);
  sent_.clear();
}

void PipelineStage::abandon() {
  sent_.clear();
  micros_.clear();
  network_.gradients().zero_();
}

gang::RoundTimes PipelineStage::take_times() {
  return std::exchange(times_, gang::RoundTimes());
}

PassContext PipelineStage::pass_of(const Running& run, int micro) const {
  PassContext pass = run.batch.pass;
  pass.first_sample += run.batch.micros[static_cast<size_t>(micro)].first;
  return pass;
}

// Micro-batches in flight follow each other, so the remainder distinguishes
// them.
Tape& PipelineStage::tape_of(int micro) {
  return tapes_[static_cast<size_t>(micro) % tapes_.size()];
}

void PipelineStage::phase(const char* text, int64_t number) {
  if (watch_.phase) watch_.phase(text, number);
}

double PipelineStage::finish_span(const char* name, int64_t number,
                                  MonoTime begin) {
  const MonoTime end = system_clock().now();
  if (watch_.span) watch_.span(name, number, begin, end);
  return to_seconds(end - begin);
}

}  // namespace dtune
