// The worker's role: gradients.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtune/parameter_server/ps_session.h"
#include "dtune/parameter_server/ps_worker.h"

namespace dtune {
namespace {

class PsWorkerSession final : public PsSession {
 public:
  PsWorkerSession(const TrialAssignment& given,
                  std::shared_ptr<const PreparedData> prepared)
      : PsSession(given, std::move(prepared)) {
    start();
  }

  uint64_t resident_bytes() const override {
    return PsSession::resident_bytes() +
           (worker_ ? worker_->resident_bytes() : 0);
  }

 protected:
  Network* whole_network() override { return &trainer().network(); }
  std::optional<TrainingState> gather(int leader) override;

  bool train_step(const std::atomic<bool>& stop) override;
  // Server 0 reports the sums of all.
  gang::Ready report() override { return {}; }
  void drop_connections() override { worker_.reset(); }

 private:
  void connect(const std::atomic<bool>& stop);
  void train_parts(const std::atomic<bool>& stop);
  void train_part(const ps::Grant& grant);
  void finish();
  TrainingState last_state();
  void report_figures();

  std::optional<PsWorker> worker_;
  // Seconds, of the gradient before: a slow process is slow at that as well,
  // so shares count it, whatever their size.
  double sending_ = 0;
};

void PsWorkerSession::connect(const std::atomic<bool>& stop) {
  client().set_phase("looking for the parameter servers");
  PsWorkerOptions options;
  options.member = member();
  options.step = step();
  options.train = assignment().recipe.train;
  options.spec = parallel().ps;
  options.parameters = trainer().network().weights().numel();
  options.runs = runs();
  for (int server = 0; server < parallel().ps.servers; ++server) {
    options.servers.push_back(address_of(server));
  }
  options.while_waiting = [this, &stop] {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    if (link().has_order()) throw OrderCame();
  };
  worker_.emplace(context(), std::move(options));
}

bool PsWorkerSession::train_step(const std::atomic<bool>& stop) {
  times = {};
  trainer().network().gradients().zero_();
  try {
    connect(stop);
    train_parts(stop);
    finish();
  } catch (const OrderCame&) {
    return false;
  }
  return true;
}

void PsWorkerSession::train_parts(const std::atomic<bool>& stop) {
  HostTensor weights(trainer().network().weights());
  while (true) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    client().set_phase("waiting for work from the parameter server");
    const MonoTime begin = system_clock().now();
    const std::optional<ps::Grant> grant = worker_->next(weights.values());
    times.waiting += to_seconds(system_clock().now() - begin);
    if (!grant) return;
    weights.put();
    train_part(*grant);
    note_position(grant->epoch * trainer().count() + grant->first);
  }
}

void PsWorkerSession::train_part(const ps::Grant& grant) {
  const MonoTime begin = system_clock().now();
  const Duration stood_still_before = client().stood_still();
  client().set_phase("computing a gradient of batch", grant.number);
  const Span span{grant.first, grant.size};
  trainer().gather({.epoch = grant.epoch,
                    .number = grant.number,
                    .first_sample = grant.first_sample,
                    .spans = {&span, 1}});
  const MonoTime gathered = system_clock().now();
  const LossTotals sums = trainer().forward();
  const MonoTime forward = system_clock().now();
  // The server ends the step for all where the loss is no number.
  if (std::isfinite(sums.loss)) trainer().backward();
  HostTensor gradient(trainer().network().gradients());
  const MonoTime end = system_clock().now();
  const Duration stood_still = client().stood_still() - stood_still_before;
  client().trace().span("compute", "gradient", begin, end);
  client().set_phase("sending the gradient of batch", grant.number);
  // A spike is no speed: shares do not follow it.
  const double running = to_seconds(end - begin - stood_still);
  worker_->push(gradient.values(), sums, running + sending_);
  sending_ = to_seconds(system_clock().now() - end);
  trainer().network().gradients().zero_();
  client().trace().span("comm", "push", end, system_clock().now());
  times.samples += sums.samples;
  times.data += to_seconds(gathered - begin);
  times.forward += to_seconds(forward - gathered);
  times.backward += to_seconds(end - forward);
  times.exposed += to_seconds(system_clock().now() - end);
  times.stopped += to_seconds(stood_still);
}

void PsWorkerSession::finish() {
  client().set_phase("waiting for the step's last gradients");
  HostTensor weights(trainer().network().weights());
  HostTensor buffers(trainer().network().buffers());
  const ps::Final final = worker_->finish(weights.values(), buffers.values());
  weights.put();
  buffers.put();
  set_progress(final.position, final.updates);
  report_figures();
}

void PsWorkerSession::report_figures() {
  const PsReads& reads = worker_->reads();
  if (reads.all == 0) return;
  client().gauge("cache_hits", static_cast<double>(reads.cached) /
                                   static_cast<double>(reads.all));
}

std::optional<TrainingState> PsWorkerSession::gather(int leader) {
  if (member() != leader) return std::nullopt;
  if (!trained()) return last_state();
  client().set_phase("fetching the optimizer's state");
  std::vector<HostTensor> state;
  for (const at::Tensor& tensor : moments()) state.emplace_back(tensor);
  try {
    worker_->fetch_state(state.front().values(), state.size() > 1
                                                     ? state.back().values()
                                                     : std::span<float>());
  } catch (const OrderCame&) {  // the others have gone on without this leader
    throw Error(ErrorKind::comm, "parameter server: another order has come");
  }
  for (HostTensor& tensor : state) tensor.put();
  return PsSession::state();
}

// Of a step without samples of its own, since the batch of the step before
// reached beyond its end: nothing has changed.
TrainingState PsWorkerSession::last_state() {
  TrainingState own = state();
  if (steps_done() > 0) {
    load_checkpoint(assignment().checkpoint, owner_of(assignment()), own);
  }
  return own;
}

}  // namespace

std::unique_ptr<TrialSession> make_ps_worker_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data) {
  return std::make_unique<PsWorkerSession>(assignment, std::move(data));
}

}  // namespace dtune
