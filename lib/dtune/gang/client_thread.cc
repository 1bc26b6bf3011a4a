// The thread of a member's connection to its gang's server.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "dtune/gang/client_impl.h"

namespace dtune {
namespace {

using namespace gang;  // NOLINT: its messages

constexpr Duration kJoinAgain = std::chrono::milliseconds(150);
constexpr Duration kLeast = std::chrono::milliseconds(20);  // between words

bool is_end(const Order& order) {
  return std::holds_alternative<Closed>(order) ||
         std::holds_alternative<Evicted>(order);
}

}  // namespace

void GangClient::Impl::run() {
  PollSet polls;
  polls.add(socket);
  polls.add(wakeup.descriptor());
  MonoTime beat{};
  while (true) {
    MonoTime t;
    bool last = false;
    Duration patience{0};
    {
      const std::lock_guard lock(mutex);
      turns.turn();
      t = turns.now();
      stood_still_before = stood_still();
      if (t >= beat) {
        beat = t + heartbeat;
        send_heartbeat();
      }
      for (std::string& bytes : link.repeats(t)) {
        outbox.push_back(std::move(bytes));
      }
      if (session == 0 && t - joined_at > kJoinAgain) join();
      last = ending;
      send_outbox();
      patience = std::min(beat - t, kLongestTurn / 2);
      awake_at = system_clock().now() + patience;
    }
    if (last) return;
    polls.wait(patience);
    wakeup.drain();
    receive_all();
  }
}

void GangClient::Impl::send_outbox() {
  // What is refused now and matters is repeated by the link.
  for (const std::string& bytes : outbox) {
    const Frames frames{bytes};
    socket.send(frames);
  }
  outbox.clear();
}

void GangClient::Impl::send_heartbeat() {
  const int64_t now = machine_ns();
  Heartbeat beat;
  const char* text = phase_text.load();
  beat.phase = text != nullptr ? text : "";
  beat.number = phase_number.load();
  beat.phase_ns = now - phase_since.load();
  beat.clock_ns = now;
  beat.gauges.swap(gauges);
  outbox.push_back(link.send_unnumbered(std::move(beat)));
}

void GangClient::Impl::receive_all() {
  while (auto frames = socket.receive()) {
    const std::lock_guard lock(mutex);
    for (const std::string& frame : *frames) {
      try {
        receive(decode(frame));
      } catch (const Error&) {
        // Not a message of this protocol.
      }
    }
  }
}

void GangClient::Impl::receive(Packet packet) {
  heard = turns.now();
  if (!link.receive(packet)) return;
  std::visit(
      [&](auto& message) {
        using T = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<T, gang::GiveUp>) {
          on(message);  // at once: the member's thread waits for a peer
        } else if constexpr (std::is_constructible_v<Order, T>) {
          take(Order(std::move(message)), packet.begun);
        } else {
          on(message);
        }
      },
      packet.message);
}

void GangClient::Impl::take(Order order, int64_t of_begin) {
  if (is_end(order)) {
    end = order;
  } else if (!step || of_begin != begun) {
    return;  // of a step that this member has left
  } else {
    orders.push_back(std::move(order));
  }
  changed.notify_all();
}

void GangClient::Impl::on(const Welcome& welcome) {
  const bool anew = welcome.fresh && session != 0;
  session = welcome.session;
  heartbeat = std::clamp(Duration(welcome.heartbeat_ns), kLeast,
                         Duration(std::chrono::seconds(10)));
  lease = std::max(Duration(welcome.lease_ns), heartbeat);
  recorder.enable(welcome.trace);
  if (anew) {
    start_anew();
  } else {
    for (std::string& bytes : link.all_pending(turns.now())) {
      outbox.push_back(std::move(bytes));
    }
  }
}

// The server has given this member up: it is taken in as one that is new.
void GangClient::Impl::start_anew() {
  link = ReliableLink();
  orders.clear();
  for (const auto& [key, value] : own_values) send(StoreSet{key, value});
  for (const auto& [key, count] : wanted) send(StoreGet{key});
  if (!step) return;
  ++begun;
  send(*step);
}

void GangClient::Impl::on(const Again&) {
  if (turns.now() - joined_at < kLeast) return;  // answered already
  join();
}

void GangClient::Impl::on(const Pong& pong) {
  clock.exchange(pong.echo_ns, pong.clock_ns, machine_ns());
}

void GangClient::Impl::on(const StoreValue& value) {
  if (!wanted.contains(value.key)) return;
  values[value.key] = value.value;
  changed.notify_all();
}

void GangClient::Impl::on(const gang::GiveUp& order) {
  if (give_up) give_up(order);
}

void GangClient::Impl::on(const TraceOn& trace) { recorder.enable(trace.on); }

}  // namespace dtune
