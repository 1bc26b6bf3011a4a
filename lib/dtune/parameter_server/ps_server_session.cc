// The server's role: weights.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "dtune/comm/curve.h"
#include "dtune/comm/zap.h"
#include "dtune/parameter_server/ps_session.h"

namespace dtune {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(50);
// All others are done and wait for this server.
constexpr Duration kOrderTick = std::chrono::milliseconds(1);
constexpr Duration kGaugeInterval = std::chrono::seconds(1);
constexpr Duration kFetchPatience = std::chrono::seconds(30);

class PsServerSession final : public PsSession {
 public:
  PsServerSession(const TrialAssignment& given,
                  std::shared_ptr<const PreparedData> prepared)
      : PsSession(given, std::move(prepared)),
        number_(assignment().rank->member - parallel().ranks) {
    start();
  }

  uint64_t resident_bytes() const override {
    return PsSession::resident_bytes() +
           (server_ && begun_ ? server_->shard().resident_bytes() : 0);
  }

 protected:
  Network* whole_network() override { return nullptr; }
  std::optional<TrainingState> gather(int leader) override;

  bool train_step(const std::atomic<bool>& stop) override;
  void serve_until_order(const std::atomic<bool>& stop) override;
  gang::Ready report() override;
  void drop_connections() override { begun_ = false; }

 private:
  void open();
  void publish();
  void begin();
  void keep_result();
  void report_figures();

  int number_;
  std::unique_ptr<PsServer> server_;
  SocketDirectory folder_;
  std::shared_ptr<AllowList> allowed_;  // null: this machine's users alone
  std::string address_;                 // as address_of() reads it
  int published_ = -1;                  // incarnation
  bool begun_ = false;                  // this step
  MonoTime reported_{};
};

// Beyond this machine over CURVE. The key pair is this process's alone, and its
// public half goes to the gang over its own, authenticated channel.
void PsServerSession::open() {
  PsServerOptions options;
  options.server = number_;
  options.servers = parallel().ps.servers;
  std::string key;
  if (guarded()) {
    const CurveKeys keys = generate_curve_keys();
    allowed_ = std::make_shared<AllowList>();
    key = " " + keys.public_key;
    const std::string& address = client().address();
    const bool brackets = address.find(':') != std::string::npos;
    options.listen.remote = brackets ? fmt::format("tcp://[{}]:0", address)
                                     : fmt::format("tcp://{}:0", address);
    options.listen.security = ListenSecurity{keys, allowed_};
  } else {
    options.listen.local = folder_.endpoint("ps");
  }
  if (number_ > 0) options.server0 = address_of(0);
  server_ = make_ps_server(context(), options);
  address_ = server_->endpoint() + key;
}

// Those that take part now may connect. They look for the address under the
// incarnation's name, so that none comes before its key is admitted.
void PsServerSession::publish() {
  if (published_ == link().incarnation()) return;
  if (allowed_) {
    std::vector<std::string> keys;
    for (const int one : link().members()) keys.push_back(key_of(one));
    allowed_->replace(keys);
  }
  client().store().set(endpoint_name(number_), address_);
  published_ = link().incarnation();
}

void PsServerSession::begin() {
  if (!server_) open();
  publish();
  PsStep ps_step;
  ps_step.step = step();
  PsPlan& own = ps_step.plan;
  own.train = assignment().recipe.train;
  own.parallel = parallel();
  own.epochs = epochs_of(assignment());
  own.epoch_samples = trainer().count();
  own.position = trainer().position();
  own.end = plan().end_of(step());
  own.updates = trainer().optimizer().updates();
  for (const int one : link().members()) {
    if (one < parallel().ranks) own.workers.push_back(one);
  }
  HostTensor weights(trainer().network().weights());
  HostTensor buffers(trainer().network().buffers());
  std::vector<HostTensor> state;
  for (const at::Tensor& tensor : moments()) state.emplace_back(tensor);
  const std::vector<DecayRun> decays = runs();
  ps_step.arrays = {weights.values(), state.front().values(), {}, decays};
  if (state.size() > 1) ps_step.arrays.second = state.back().values();
  ps_step.buffers = buffers.values();
  server_->begin(ps_step);
  begun_ = true;
}

bool PsServerSession::train_step(const std::atomic<bool>& stop) {
  try {
    if (!begun_) begin();
  } catch (const OrderCame&) {
    return false;
  }
  const int64_t first = trainer().position();
  const auto all = static_cast<double>(plan().end_of(step()) - first);
  while (!server_->trained()) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    if (link().has_order()) {
      // Its last order may have come before, over another connection.
      server_->poll(Duration(0));
      if (server_->trained()) break;
      return false;
    }
    const int awaited = server_->awaited();
    client().set_phase(awaited < 0 ? "serving" : "serving and awaiting member",
                       awaited);
    server_->poll(kTick);
    note_position(first + static_cast<int64_t>(all * server_->fraction()));
    report_figures();
  }
  keep_result();
  return true;
}

// A worker that comes just now still finds the end of the step here.
void PsServerSession::serve_until_order(const std::atomic<bool>& stop) {
  try {
    publish();
  } catch (const OrderCame&) {
    return;
  }
  while (!link().has_order()) {
    if (stop.load(std::memory_order_relaxed)) throw StepStopped();
    server_->poll(kOrderTick);
  }
}

// The next step begins with this server's slice of these.
void PsServerSession::keep_result() {
  PsShard& shard = server_->shard();
  const auto put = [&](const at::Tensor& tensor, ps::Content content) {
    HostTensor whole(tensor);
    const std::span<const float> own = shard.values(content);
    std::copy(own.begin(), own.end(),
              whole.values().begin() + shard.slice().begin);
    whole.put();
  };
  put(trainer().network().weights(), ps::Content::weights);
  const std::vector<at::Tensor> state = moments();
  put(state.front(), ps::Content::first);
  if (state.size() > 1) put(state.back(), ps::Content::second);
  HostTensor buffers(trainer().network().buffers());
  const std::span<const float> mean = server_->buffers();
  if (mean.size() == buffers.values().size()) {
    std::copy(mean.begin(), mean.end(), buffers.values().begin());
    buffers.put();
  }
  set_progress(server_->result().position, server_->result().updates);
  reported_ = {};
  report_figures();
}

gang::Ready PsServerSession::report() {
  gang::Ready ready;
  if (number_ == 0) ready.totals = server_->result().totals;
  return ready;
}

void PsServerSession::report_figures() {
  const MonoTime now = system_clock().now();
  if (number_ > 0 || now - reported_ < kGaugeInterval) return;
  reported_ = now;
  const PsFigures figures = server_->take_figures();
  if (figures.applied + figures.discarded == 0) return;
  client().gauge("staleness", figures.mean_staleness);
  client().gauge("staleness_max", static_cast<double>(figures.max_staleness));
  client().gauge("discarded", static_cast<double>(figures.discarded));
  client().gauge("lr_factor", figures.mean_factor);
  client().gauge("left_out", static_cast<double>(figures.left_out));
}

// The leader fetches its state.
std::optional<TrainingState> PsServerSession::gather(int /*leader*/) {
  if (!trained()) return std::nullopt;
  const MonoTime end = system_clock().now() + kFetchPatience;
  const int64_t before = server_->state_requests_done();
  while (server_->state_requests_done() == before) {
    server_->poll(kTick);
    if (link().has_order()) {
      throw Error(ErrorKind::comm, "parameter server: another order has come");
    }
    if (system_clock().now() < end) continue;
    throw Error(
        ErrorKind::comm,
        fmt::format("parameter server {}: the leader has not fetched the "
                    "state for {:.0f} s",
                    number_, to_seconds(kFetchPatience)));
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<TrialSession> make_ps_server_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data) {
  return std::make_unique<PsServerSession>(assignment, std::move(data));
}

}  // namespace dtune
