#include "dtune/parameter_server/parameter_server_session.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/comm/curve.h"
#include "dtune/parameter_server/ps_session.h"

namespace dtune {
namespace {

constexpr Duration kStoreSlice = std::chrono::milliseconds(200);
constexpr Duration kAddressPatience = std::chrono::seconds(60);

std::string key_name(int member) { return fmt::format("ps.{}.key", member); }

}  // namespace

HostTensor::HostTensor(const at::Tensor& tensor)
    : tensor_(tensor),
      host_(tensor.device().is_cpu() ? tensor : tensor.to(at::kCPU)) {}

std::span<float> HostTensor::values() {
  return {host_.data_ptr<float>(), static_cast<size_t>(host_.numel())};
}

void HostTensor::put() {
  if (!tensor_.device().is_cpu()) tensor_.copy_(host_);
}

PsSession::PsSession(const TrialAssignment& given,
                     std::shared_ptr<const PreparedData> prepared)
    : GangSession(given, std::move(prepared)),
      trainer_(assignment().recipe, trainer_options(assignment(), device()),
               data()) {}

void PsSession::set_progress(int64_t position, int64_t updates) {
  trainer_.set_position(position);
  trainer_.optimizer().set_updates(updates);
}

gang::Begin PsSession::begin_of(int step) {
  trained_ = false;
  in_training_ = false;
  drop_connections();
  // Said first, so it is known wherever an order names this member.
  if (guarded()) {
    client().store().set(key_name(member()), assignment().rank->public_key);
  }
  gang::Begin begin = GangSession::begin_of(step);
  begin.own_training = true;
  return begin;
}

// Handed out again after a failure of others, a round that is done stays so.
gang::Order PsSession::train(const gang::Work& work,
                             const std::atomic<bool>& stop) {
  in_training_ = true;
  if (!trained_) {
    if (!train_step(stop)) return link().wait(stop);
    trained_ = true;
  }
  gang::Ready ready = report();
  ready.round = work.round;
  ready.updates = trainer_.optimizer().updates();
  ready.times = times;
  client().ready(ready);
  client().set_phase("waiting for the others' training");
  serve_until_order(stop);
  return link().wait_for(work.round, stop);
}

// A step that is not trained begins anew.
void PsSession::abandon() {
  trainer_.network().gradients().zero_();
  if (trained_ || !in_training_) return;
  drop_connections();
  put_commit();
  in_training_ = false;
}

// Waits in slices, so that another order ends it.
std::string PsSession::value_of(const std::string& key) {
  const MonoTime end = system_clock().now() + kAddressPatience;
  while (true) {
    try {
      return client().store().get(key, kStoreSlice);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::comm || system_clock().now() > end) throw;
    }
    if (link().has_order()) throw OrderCame();
  }
}

std::string PsSession::endpoint_name(int server) {
  return fmt::format("ps.{}.{}.endpoint", link().incarnation(), server);
}

std::string PsSession::key_of(int member) { return value_of(key_name(member)); }

// "endpoint" or "endpoint key": the key is new for each server process and
// known to the gang alone.
PsAddress PsSession::address_of(int server) {
  const std::string value = value_of(endpoint_name(server));
  const size_t space = value.find(' ');
  PsAddress address{.endpoint = value.substr(0, space)};
  if (space != std::string::npos) {
    const RankInfo& rank = assignment().rank.value();
    address.security = CurveClient{value.substr(space + 1),
                                   {rank.public_key, rank.secret_key}};
  }
  return address;
}

std::vector<DecayRun> PsSession::runs() {
  return decay_runs(trainer_.network().parameter_slices(),
                    assignment().recipe.train);
}

std::vector<at::Tensor> PsSession::moments() const {
  std::vector<at::Tensor> tensors;
  for (const Optimizer::State& state : trainer_.optimizer().state()) {
    tensors.push_back(state.values);
  }
  return tensors;
}

std::unique_ptr<TrialSession> make_parameter_server_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data) {
  const int workers = assignment.recipe.parallel.ranks;
  return assignment.rank.value().member < workers
             ? make_ps_worker_session(assignment, std::move(data))
             : make_ps_server_session(assignment, std::move(data));
}

}  // namespace dtune
