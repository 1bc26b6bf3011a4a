#include "dtune/gang/client.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/quiet_thread.h"
#include "dtune/gang/client_impl.h"
#include "dtune/gang/own_address.h"
#include "dtune/gang/trace_chunks.h"
#include "dtune/study/trial_runner.h"

namespace dtune {
namespace {

using namespace gang;  // NOLINT: its messages

constexpr Duration kLook = std::chrono::milliseconds(20);  // at `stop`

SocketOptions socket_options(const RankInfo& rank) {
  SocketOptions options;
  if (!rank.server_key.empty()) {
    options.client =
        CurveClient{rank.server_key, {rank.public_key, rank.secret_key}};
  }
  return options;
}

// Distinguishes this process from any other that may claim the same place.
std::string process_name() {
  return fmt::format("{}:{}:{}", getpid(), system_clock().wall_ms(),
                     machine_ns());
}

}  // namespace

GangClient::Impl::Impl(const RankInfo& rank_in, GiveUp give_up_in)
    : rank(rank_in),
      give_up(std::move(give_up_in)),
      address(rank.address.empty() ? own_address(rank.endpoint) : rank.address),
      process(process_name()),
      socket(context, Socket::Kind::dealer, socket_options(rank)) {
  socket.connect(rank.endpoint);
  heard = turns.now();
  awake_at = system_clock().now();
  join();
  thread = start_quiet_thread([this] { run(); });
}

GangClient::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex);
    flush_trace();
    send(Leave{});
    ending = true;
  }
  wakeup.notify();
  thread.join();
}

void GangClient::Impl::set(const std::string& key, const std::string& value) {
  {
    const std::lock_guard lock(mutex);
    own_values[key] = value;
    send(StoreSet{key, value});
  }
  wakeup.notify();
}

std::string GangClient::Impl::get(const std::string& key, Duration timeout) {
  std::unique_lock lock(mutex);
  ++wanted[key];
  values.erase(key);  // it may have been set anew
  send(StoreGet{key});
  wakeup.notify();
  changed.wait_for(lock, timeout,
                   [&] { return values.contains(key) || end.has_value(); });
  if (--wanted[key] == 0) wanted.erase(key);
  const auto found = values.find(key);
  if (found != values.end()) return found->second;
  throw Error(ErrorKind::comm,
              fmt::format("gang {}: no member has set '{}' within {}",
                          label(rank.gang), key, format_duration(timeout)));
}

void GangClient::Impl::enqueue(Message message) {
  {
    const std::lock_guard lock(mutex);
    send(std::move(message));
  }
  wakeup.notify();
}

void GangClient::Impl::begin_step(const Begin& begin) {
  {
    const std::lock_guard lock(mutex);
    ++begun;
    step = begin;
    orders.clear();
    send(begin);
  }
  wakeup.notify();
}

void GangClient::Impl::applied(int64_t updates) {
  const std::lock_guard lock(mutex);
  if (step) step->updates = std::max(step->updates, updates);
}

void GangClient::Impl::leave_step() {
  {
    const std::lock_guard lock(mutex);
    if (!step) return;
    step.reset();
    orders.clear();
    flush_trace();
    send(Left{});
  }
  wakeup.notify();
}

std::optional<Order> GangClient::Impl::next_order() {
  if (orders.empty()) return end;
  Order order = std::move(orders.front());
  orders.pop_front();
  const auto* go = std::get_if<Go>(&order);
  if (go != nullptr && go->last) {
    step.reset();
    flush_trace();
    wakeup.notify();
  }
  return order;
}

void GangClient::Impl::check_server() const {
  const Duration silent = turns.now() - heard;
  if (silent <= lease) return;
  throw GangLost(fmt::format("gang {}: its server at {} has been silent for {}",
                             label(rank.gang), rank.endpoint,
                             format_duration(silent)));
}

// The thread has nothing to do but to wake up: where it comes later than that
// by so much, the process stood still.
Duration GangClient::Impl::stood_still() const {
  constexpr Duration kSpike = std::chrono::milliseconds(100);
  const Duration late = system_clock().now() - awake_at;
  return stood_still_before + (late > kSpike ? late : Duration{0});
}

void GangClient::Impl::send(Message message) {
  outbox.push_back(link.send(std::move(message), begun, turns.now()));
}

void GangClient::Impl::join() {
  outbox.push_back(
      link.send_unnumbered(Join{rank.gang, rank.member, process, session}));
  joined_at = turns.now();
}

void GangClient::Impl::flush_trace() {
  if (!recorder.enabled()) return;
  for (TraceChunk& chunk : to_chunks(recorder.take(), clock.nanoseconds())) {
    send(std::move(chunk));
  }
}

GangClient::GangClient(const RankInfo& rank, GiveUp give_up)
    : impl_(std::make_unique<Impl>(rank, std::move(give_up))) {}
GangClient::~GangClient() = default;

const RankInfo& GangClient::rank() const { return impl_->rank; }
const std::string& GangClient::address() const { return impl_->address; }
RendezvousStore& GangClient::store() { return *impl_; }
TraceRecorder& GangClient::trace() { return impl_->recorder; }

void GangClient::begin(const Begin& begin) { impl_->begin_step(begin); }

void GangClient::ready(const Ready& ready) {
  impl_->applied(ready.updates);
  impl_->enqueue(ready);
}

void GangClient::failed(const Failed& failed) {
  impl_->applied(failed.updates);
  impl_->enqueue(failed);
}

void GangClient::leave_step() { impl_->leave_step(); }

Order GangClient::wait(const std::atomic<bool>& stop) {
  while (true) {
    if (stop) throw StepStopped();
    if (auto order = poll(kLook)) return std::move(*order);
  }
}

std::optional<Order> GangClient::poll(Duration patience) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, patience, [this] {
    return !impl_->orders.empty() || impl_->end.has_value();
  });
  if (auto order = impl_->next_order()) return order;
  impl_->check_server();
  return std::nullopt;
}

Duration GangClient::stood_still() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->stood_still();
}

void GangClient::set_phase(const char* text, int64_t number) {
  impl_->phase_text = text;
  impl_->phase_number = number;
  impl_->phase_since = machine_ns();
}

void GangClient::gauge(const std::string& name, double value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->gauges[name] = value;
}

}  // namespace dtune
