#include "dtune/gang/client.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/comm/quiet_thread.h"
#include "dtune/comm/socket.h"
#include "dtune/gang/clock_offset.h"
#include "dtune/gang/own_address.h"
#include "dtune/gang/reliable_link.h"
#include "dtune/gang/trace_chunks.h"

namespace dtune {
namespace {

using namespace gang;  // NOLINT: its messages

constexpr Duration kJoinAgain = std::chrono::milliseconds(150);
constexpr Duration kStarved = std::chrono::seconds(1);
constexpr Duration kLook = std::chrono::milliseconds(20);  // at `stop`

MonoTime now() { return system_clock().now(); }

bool is_end(const Order& order) {
  return std::holds_alternative<Closed>(order) ||
         std::holds_alternative<Evicted>(order);
}

SocketOptions socket_options(const GangSeat& seat) {
  SocketOptions options;
  options.max_message_bytes = kMaxMessageBytes;
  if (!seat.server_key.empty()) {
    options.client =
        CurveClient{seat.server_key, {seat.public_key, seat.secret_key}};
  }
  return options;
}

// Tells this process from every other that may ever claim the same place.
std::string process_name() {
  return fmt::format("{}:{}:{}", getpid(), system_clock().wall_ms(),
                     now().time_since_epoch().count());
}

}  // namespace

struct GangClient::Impl final : RendezvousStore {
  explicit Impl(const GangSeat& seat_in)
      : seat(seat_in),
        address(seat.address.empty() ? own_address(seat.endpoint)
                                     : seat.address),
        process(process_name()),
        socket(context, Socket::Kind::dealer, socket_options(seat)) {
    socket.connect(seat.endpoint);
    heard = now();
    join();
    thread = start_quiet_thread([this] { run(); });
  }

  ~Impl() override {
    {
      const std::lock_guard lock(mutex);
      flush_trace();
      send(Leave{});
      ending = true;
    }
    wakeup.notify();
    thread.join();
  }

  // The member's threads.

  void set(const std::string& key, const std::string& value) override {
    {
      const std::lock_guard lock(mutex);
      own_values[key] = value;
      send(StoreSet{key, value});
    }
    wakeup.notify();
  }

  std::string get(const std::string& key, Duration timeout) override {
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
                fmt::format("gang {}: nobody has said '{}' within {}",
                            seat.gang, key, format_duration(timeout)));
  }

  void post(Message message) {
    {
      const std::lock_guard lock(mutex);
      send(std::move(message));
    }
    wakeup.notify();
  }

  void begin_step(const Begin& begin) {
    {
      const std::lock_guard lock(mutex);
      ++begun;
      step = begin;
      orders.clear();
      send(begin);
    }
    wakeup.notify();
  }

  void applied(int64_t updates) {
    const std::lock_guard lock(mutex);
    if (step) step->updates = std::max(step->updates, updates);
  }

  void leave_step() {
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

  // Under the lock.
  std::optional<Order> next_order() {
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

  void check_server() const {
    const Duration silent = now() - heard;
    if (silent <= lease) return;
    throw GangLost(
        fmt::format("gang {}: its server at {} has been silent for {}",
                    seat.gang, seat.endpoint, format_duration(silent)));
  }

  // Under the lock.

  void send(Message message) {
    outbox.push_back(link.send(std::move(message), begun, now()));
  }

  void join() {
    outbox.push_back(
        link.send_unnumbered(Join{seat.gang, seat.member, process, session}));
    joined_at = now();
  }

  void flush_trace() {
    if (!recorder.enabled()) return;
    for (TraceChunk& chunk : to_chunks(recorder.take(), clock.nanoseconds())) {
      send(std::move(chunk));
    }
  }

  // The thread.

  void run() {
    PollSet polls;
    polls.add(socket);
    polls.add(wakeup.descriptor());
    MonoTime beat{};
    MonoTime looped = now();
    while (true) {
      const MonoTime t = now();
      bool last = false;
      {
        const std::lock_guard lock(mutex);
        // Suspended, or starved of time: the silence was on this side.
        if (t - looped > kStarved) heard += t - looped;
        looped = t;
        if (t >= beat) {
          beat = t + heartbeat;
          send_heartbeat(t);
        }
        for (std::string& bytes : link.repeats(t)) {
          outbox.push_back(std::move(bytes));
        }
        if (session == 0 && t - joined_at > kJoinAgain) join();
        last = ending;
        send_outbox();
      }
      if (last) return;
      polls.wait(beat - t);
      wakeup.drain();
      receive_all();
    }
  }

  void send_outbox() {
    // What is refused now and matters is repeated by the link.
    for (const std::string& bytes : outbox) {
      const Frames frames{bytes};
      socket.send(frames);
    }
    outbox.clear();
  }

  void send_heartbeat(MonoTime t) {
    Heartbeat beat;
    const char* text = phase_text.load();
    beat.phase = text != nullptr ? text : "";
    beat.number = phase_number.load();
    beat.phase_ns = t.time_since_epoch().count() - phase_since.load();
    beat.clock_ns = t.time_since_epoch().count();
    beat.gauges.swap(gauges);
    outbox.push_back(link.send_unnumbered(std::move(beat)));
  }

  void receive_all() {
    while (auto frames = socket.receive()) {
      const std::lock_guard lock(mutex);
      for (const std::string& frame : *frames) {
        try {
          receive(decode(frame));
        } catch (const Error&) {
          // No word of a server that speaks this language.
        }
      }
    }
  }

  void receive(Packet packet) {
    heard = now();
    if (!link.receive(packet)) return;
    std::visit(
        [&](auto& message) {
          using T = std::decay_t<decltype(message)>;
          if constexpr (std::is_constructible_v<Order, T>) {
            take(Order(std::move(message)), packet.begun);
          } else {
            on(message);
          }
        },
        packet.message);
  }

  void take(Order order, int64_t of_begin) {
    if (is_end(order)) {
      end = order;
    } else if (!step || of_begin != begun) {
      return;  // of a step that this member has left
    } else {
      orders.push_back(std::move(order));
    }
    changed.notify_all();
  }

  template <class T>
  void on(const T&) {}  // what only a server hears

  void on(const Welcome& welcome) {
    const bool anew = welcome.fresh && session != 0;
    session = welcome.session;
    heartbeat = std::clamp(Duration(welcome.heartbeat_ns), kLook,
                           Duration(std::chrono::seconds(10)));
    lease = std::max(Duration(welcome.lease_ns), heartbeat);
    recorder.enable(welcome.trace);
    if (anew) {
      start_anew();
    } else {
      for (std::string& bytes : link.all_pending(now())) {
        outbox.push_back(std::move(bytes));
      }
    }
  }

  // The server has given this member up: it is taken in as one that is new.
  void start_anew() {
    link = ReliableLink();
    orders.clear();
    for (const auto& [key, value] : own_values) send(StoreSet{key, value});
    for (const auto& [key, count] : wanted) send(StoreGet{key});
    if (!step) return;
    ++begun;
    send(*step);
  }

  void on(const Again&) {
    if (now() - joined_at < kLook) return;  // answered already
    join();
  }

  void on(const Pong& pong) {
    clock.exchange(pong.echo_ns, pong.clock_ns,
                   now().time_since_epoch().count());
  }

  void on(const StoreValue& value) {
    if (!wanted.contains(value.key)) return;
    values[value.key] = value.value;
    changed.notify_all();
  }

  void on(const TraceOn& trace) { recorder.enable(trace.on); }

  const GangSeat seat;
  const std::string address;
  const std::string process;
  SocketContext context;
  Socket socket;  // of the constructor, then of the thread
  Wakeup wakeup;
  TraceRecorder recorder;

  std::atomic<const char*> phase_text{"starting"};
  std::atomic<int64_t> phase_number{-1};
  std::atomic<int64_t> phase_since{now().time_since_epoch().count()};

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  ReliableLink link;
  std::deque<std::string> outbox;
  std::deque<Order> orders;
  std::optional<Order> end;
  std::optional<Begin> step;  // that this member is in
  int64_t begun = 0;
  int64_t session = 0;  // 0: not welcomed yet
  MonoTime joined_at{};
  MonoTime heard{};
  Duration heartbeat{std::chrono::milliseconds(200)};
  Duration lease{std::chrono::seconds(15)};
  std::map<std::string, std::string> own_values;
  std::map<std::string, std::string> values;
  std::map<std::string, int> wanted;
  std::map<std::string, double> gauges;
  ClockOffset clock;  // the server's
  bool ending = false;

  std::thread thread;
};

GangClient::GangClient(const GangSeat& seat)
    : impl_(std::make_unique<Impl>(seat)) {}
GangClient::~GangClient() = default;

const GangSeat& GangClient::seat() const { return impl_->seat; }
const std::string& GangClient::address() const { return impl_->address; }
RendezvousStore& GangClient::store() { return *impl_; }
TraceRecorder& GangClient::trace() { return impl_->recorder; }

void GangClient::begin(const Begin& begin) { impl_->begin_step(begin); }

void GangClient::ready(const Ready& ready) {
  impl_->applied(ready.updates);
  impl_->post(ready);
}

void GangClient::failed(const Failed& failed) {
  impl_->applied(failed.updates);
  impl_->post(failed);
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

void GangClient::set_phase(const char* text, int64_t number) {
  impl_->phase_text = text;
  impl_->phase_number = number;
  impl_->phase_since = now().time_since_epoch().count();
}

void GangClient::gauge(const std::string& name, double value) {
  const std::lock_guard lock(impl_->mutex);
  impl_->gauges[name] = value;
}

}  // namespace dtune
