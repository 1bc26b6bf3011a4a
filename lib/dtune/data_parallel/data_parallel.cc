#include "dtune/data_parallel/data_parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dtune/data_parallel/overlap_choice.h"
#include "dtune/data_parallel/reducer.h"
#include "dtune/distributed/gang_session.h"

namespace dtune {
namespace {

using gang::Go;
using gang::Order;
using gang::Work;

double seconds_between(MonoTime begin, MonoTime end) {
  return std::max(0.0, to_seconds(end - begin));
}

int64_t bucket_bytes(const ParallelSpec& parallel) {
  return std::max<int64_t>(1, std::llround(parallel.bucket_mb * (1 << 20)));
}

// Another order came while a round was computed.
struct RoundVoid {};

// When the parts of a round began and ended.
struct Marks {
  MonoTime begin{};
  MonoTime gathered{};
  MonoTime forward{};   // done
  MonoTime ready{};     // was sent
  MonoTime backward{};  // done
  MonoTime go{};        // came; by the reducer's thread
  MonoTime reduced{};
  MonoTime updated{};
  Duration stood_still{0};  // of the process, until backward was done
};

gang::RoundTimes times_of(const Marks& marks, int64_t samples) {
  gang::RoundTimes times;
  times.samples = samples;
  times.data = seconds_between(marks.begin, marks.gathered);
  times.forward = seconds_between(marks.gathered, marks.forward);
  times.backward = seconds_between(marks.forward, marks.backward);
  times.until_ready = seconds_between(marks.begin, marks.ready);
  times.waiting = seconds_between(marks.backward, marks.go);
  times.exposed =
      seconds_between(std::max(marks.backward, marks.go), marks.reduced);
  times.update = seconds_between(marks.reduced, marks.updated);
  times.stopped = std::min(to_seconds(marks.stood_still), times.compute());
  return times;
}

class DataParallelSession final : public GangSession {
 public:
  DataParallelSession(const TrialAssignment& assignment,
                      std::shared_ptr<const PreparedData> data)
      : GangSession(assignment, std::move(data)),
        trainer_(this->assignment().recipe,
                 trainer_options(this->assignment(), device()), this->data()),
        overlap_(this->assignment().recipe.parallel.overlap),
        reducer_(trainer_.network(),
                 bucket_bytes(this->assignment().recipe.parallel),
                 [this](size_t bucket, MonoTime begin) {
                   record("comm", fmt::format("bucket {}", bucket), begin);
                 }) {
    start();
  }

  uint64_t resident_bytes() const override {
    return GangSession::resident_bytes() + trainer_.resident_bytes();
  }

 protected:
  TrainingState state() override { return state_of(trainer_); }

  void set_progress(int64_t position, int64_t updates) override {
    trainer_.set_position(position);
    trainer_.optimizer().set_updates(updates);
    own_samples_ = 0;
  }

  Network* whole_network() override { return &trainer_.judged(); }

  void abandon() override { trainer_.network().gradients().zero_(); }

  Order train(const Work& work, const std::atomic<bool>& stop) override;
  void settle(const std::vector<int>& who, Duration patience) override;

 private:
  LossTotals forward(const Work& work);
  void look_for_orders();
  void end_void_round();
  Order reduce(const Work& work, const LossTotals& totals,
               const std::atomic<bool>& stop);
  void backward(const Work& work, const LossTotals& totals);
  void give_up();
  void say_ready(const Work& work, const LossTotals& totals, bool complete);
  Reduction decide(const Work& work, const LossTotals& totals,
                   const std::atomic<bool>& stop);
  void update(const Work& work, const Go& go);
  void record(const char* lane, std::string name, MonoTime begin);

  // Of the device that groups reduce on; -1: through the CPU's memory.
  int reducing_device() const {
    return device().is_cpu() || !has_nccl() ? -1 : device().index();
  }

  mutable Trainer trainer_;
  OverlapChoice overlap_;
  int64_t own_samples_ = 0;  // trained since the running statistics were merged
  bool settled_ = false;     // they were, with these
  Marks marks_;
  Duration stood_still_{0};  // before the round
  bool reducing_ = false;    // the reducer takes the orders
  Order order_;              // the answer to ready; by the reducer's thread
  std::atomic<bool> answered_ = false;  // it has come; by the same
  std::atomic<bool> given_up_ = false;  // it is not waited for any more
  Reducer reducer_;                     // last: its thread uses the others
};

Order DataParallelSession::train(const Work& work,
                                 const std::atomic<bool>& stop) {
  if (stop.load(std::memory_order_relaxed)) throw StepStopped();
  marks_ = {};
  answered_ = given_up_ = reducing_ = false;
  if (std::exchange(settled_, false)) own_samples_ = 0;
  marks_.begin = system_clock().now();
  stood_still_ = client().stood_still();
  LossTotals totals;
  Order order;
  try {
    totals = forward(work);
    order = reduce(work, totals, stop);
  } catch (const RoundVoid&) {
    end_void_round();
    order = answered_ ? std::move(order_) : link().wait_for(work.round, stop);
    totals = {};
  }
  if (const auto* go = std::get_if<Go>(&order); go && !go->last) {
    update(work, *go);
    own_samples_ += totals.samples;
  }
  marks_.updated = system_clock().now();
  times = times_of(marks_, totals.samples);
  if (totals.samples > 0) overlap_.observe(times);
  return order;
}

LossTotals DataParallelSession::forward(const Work& work) {
  client().set_phase("gathering batch", work.number);
  trainer_.set_position(work.position);
  trainer_.gather({.epoch = work.epoch,
                   .number = work.number,
                   .first_sample = work.first_sample,
                   .spans = work.spans});
  marks_.gathered = system_clock().now();
  record("compute", "data", marks_.begin);
  client().set_phase("forward of batch", work.number);
  const LossTotals sums = trainer_.forward();
  marks_.forward = system_clock().now();
  record("compute", "forward", marks_.gathered);
  look_for_orders();
  return sums;
}

// The gang may have gone on without this rank, which stood still: what it
// computes is void then, and the sooner it comes back the better.
void DataParallelSession::look_for_orders() {
  const bool is_void = reducing_
                           ? answered_ && !std::holds_alternative<Go>(order_)
                           : link().is_void();
  if (is_void) throw RoundVoid();
}

// Its time was spent on no sample.
void DataParallelSession::end_void_round() {
  const MonoTime now = system_clock().now();
  for (MonoTime* mark : {&marks_.gathered, &marks_.forward, &marks_.backward,
                         &marks_.ready, &marks_.go, &marks_.reduced}) {
    if (*mark == MonoTime{}) *mark = now;
  }
  marks_.stood_still = client().stood_still() - stood_still_;
}

// Backward and reduction, side by side or one after the other. A loss that is
// no number is reported at once: no member will go on from it.
Order DataParallelSession::reduce(const Work& work, const LossTotals& totals,
                                  const std::atomic<bool>& stop) {
  const auto decide_go = [&] { return decide(work, totals, stop); };
  const bool computes = totals.samples > 0 && std::isfinite(totals.loss);
  reducing_ = overlap_.overlaps() || !computes;
  if (reducing_) reducer_.begin(decide_go);
  if (computes) {
    backward(work, totals);
  } else {
    say_ready(work, totals, true);
    reducer_.ready(0);
  }
  marks_.backward = system_clock().now();
  marks_.stood_still = client().stood_still() - stood_still_;
  if (!overlap_.overlaps() && computes) {
    say_ready(work, totals, true);
    reducer_.begin(decide_go);
    reducer_.ready(0);
  }
  client().set_phase("reducing the gradient of batch", work.number);
  reducer_.finish();
  marks_.reduced = system_clock().now();
  return std::move(order_);
}

void DataParallelSession::backward(const Work& work, const LossTotals& totals) {
  client().set_phase("backward of batch", work.number);
  try {
    trainer_.backward([&](int layer) {
      look_for_orders();
      if (overlap_.overlaps() && reducer_.ready(layer))
        say_ready(work, totals, false);
    });
  } catch (...) {
    give_up();
    throw;
  }
  record("compute", "backward", marks_.forward);
  if (overlap_.overlaps() && !answered_) say_ready(work, totals, true);
}

// The reducer's thread uses what this round has on the stack.
void DataParallelSession::give_up() {
  given_up_ = true;
  reducer_.cancel();
  try {
    reducer_.finish();
  } catch (...) {  // what comes of it does not matter any more
  }
}

void DataParallelSession::say_ready(const Work& work, const LossTotals& totals,
                                    bool complete) {
  if (marks_.ready == MonoTime{}) marks_.ready = system_clock().now();
  client().ready({.round = work.round,
                  .totals = totals,
                  .times = times,
                  .updates = trainer_.optimizer().updates(),
                  .metrics = {},
                  .complete = complete});
}

// On the reducer's thread.
Reduction DataParallelSession::decide(const Work& work,
                                      const LossTotals& totals,
                                      const std::atomic<bool>& stop) {
  order_ = link().wait_for(work.round, stop, &given_up_);
  answered_ = true;
  marks_.go = system_clock().now();
  const auto* go = std::get_if<Go>(&order_);
  const bool reduces =
      go != nullptr && go->totals.weight > 0 && std::isfinite(go->totals.loss);
  if (!reduces) return {};
  Reduction reduction;
  reduction.group = &link().group(go->participants, work.round, go->patience,
                                  reducing_device());
  reduction.scale = totals.weight / go->totals.weight;
  reduction.patience = go->patience;
  return reduction;
}

// All participants see the same totals and the same gradient, so they all
// update or all fail.
void DataParallelSession::update(const Work& work, const Go& go) {
  if (go.totals.samples == 0)
    return;  // a round that only brings peers together
  client().set_phase("updating after batch", work.number);
  const BatchRange batch{.epoch = work.epoch,
                         .number = work.number,
                         .first = work.first_sample,
                         .size = go.totals.samples};
  trainer_.check_loss({.loss = go.totals.loss}, batch);
  trainer_.update(batch);
  record("compute", "update", marks_.reduced);
}

// The mean of the running statistics, by samples; then all are equal.
void DataParallelSession::settle(const std::vector<int>& who,
                                 Duration patience) {
  const at::Tensor& buffers = trainer_.network().buffers();
  if (buffers.numel() == 0 || who.size() < 2) return;
  client().set_phase("averaging running statistics");
  const auto count = static_cast<float>(own_samples_);
  std::vector<at::Tensor> own = {buffers};
  if (trainer_.average() != nullptr) own.push_back(trainer_.judged().buffers());
  at::Tensor sums =
      at::cat({at::cat(own).to(at::kCPU) * count, at::full({1}, count)});
  link()
      .group(who, round(), patience)
      .all_reduce({sums.data_ptr<float>(), static_cast<size_t>(sums.numel())},
                  patience);
  const float all = sums[-1].item<float>();
  for (size_t i = 0; all > 0 && i < own.size(); ++i) {
    const int64_t first = buffers.numel() * static_cast<int64_t>(i);
    own[i].copy_(sums.narrow(0, first, buffers.numel()) / all);
  }
  settled_ = true;  // others may not know of it, and do it again
}

void DataParallelSession::record(const char* lane, std::string name,
                                 MonoTime begin) {
  client().trace().span(lane, std::move(name), begin, system_clock().now());
}

}  // namespace

std::unique_ptr<TrialSession> make_data_parallel_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data) {
  return std::make_unique<DataParallelSession>(assignment, std::move(data));
}

}  // namespace dtune
