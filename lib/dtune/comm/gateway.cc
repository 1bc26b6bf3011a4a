#include "dtune/comm/gateway.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "dtune/base/error.h"
#include "dtune/base/quiet_thread.h"
#include "dtune/base/tcp_socket.h"
#include "dtune/comm/curve.h"
#include "dtune/comm/curve_hello.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/gateway_connection.h"
#include "dtune/comm/socket.h"
#include "dtune/comm/unknown_connections.h"

namespace dtune {
namespace {

using gateway::Connection;

constexpr uint64_t kListening = 0;  // epoll's data; others are connections
constexpr uint64_t kWoken = 1;
constexpr size_t kPiece = size_t{64} << 10;  // read at once
constexpr int kOpenedAtOnce = 16;            // HELLOs: some milliseconds
constexpr int kTakenAtOnce = 16;             // connections
constexpr Duration kLook = std::chrono::seconds(1);  // for what takes too long
constexpr size_t kMaxNotices = 100;

std::string server_name(size_t number) {
  return fmt::format("server{}", number);
}

}  // namespace

struct Gateway::Impl {
  // All connections of one key to one server.
  using ServerAndKey = std::pair<size_t, std::string>;
  struct KeyUse {
    int connections = 0;
    uint64_t waiting = 0;
  };

  explicit Impl(const GatewayOptions& given)
      : options(given),
        listening(gateway::listening_socket(given.endpoint, given.ports)),
        poll(epoll_create1(EPOLL_CLOEXEC)),
        address(parse_tcp(given.endpoint).value()),
        unknown(given.hellos) {
    if (poll.get() < 0) {
      throw Error(ErrorKind::temporary, "epoll: " + errno_text(errno));
    }
    address.port = port_of(listening.get());
    watch(listening.get(), 0, kListening, EPOLL_CTL_ADD);
    watch(wakeup.descriptor(), EPOLLIN, kWoken, EPOLL_CTL_ADD);
    thread = start_quiet_thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wakeup.notify();
    thread.join();
  }

  void watch(int descriptor, uint32_t events, uint64_t data, int what) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = data;
    epoll_ctl(poll.get(), what, descriptor, &event);
  }

  // The thread. All below REQUIRES the mutex but run() itself.

  void run() {
    MonoTime end{};
    while (true) {
      std::array<epoll_event, 64> events;
      const int count = epoll_wait(poll.get(), events.data(),
                                   int{events.size()}, milliseconds_idle());
      const std::lock_guard lock(mutex);
      for (int i = 0; i < count; ++i) handle(events[size_t(i)]);
      open_hellos();
      look_over(system_clock().now());
      if (!stopping) continue;
      const MonoTime now = system_clock().now();
      if (end == MonoTime{}) {
        end = now + std::chrono::milliseconds(Socket::kLingerMs);
      }
      if (now >= end || all_sent()) return;
    }
  }

  int milliseconds_idle() {
    const std::lock_guard lock(mutex);
    const Duration idle = unknown.pause(
        stopping ? Duration(std::chrono::milliseconds(10)) : kLook);
    return static_cast<int>(
        std::chrono::ceil<std::chrono::milliseconds>(idle).count());
  }

  // The servers have closed, and their last words have gone out.
  bool all_sent() const {
    return std::all_of(
        connections.begin(), connections.end(), [](const auto& one) {
          return one.second->server.get() < 0 && one.second->out.empty();
        });
  }

  void handle(const epoll_event& event) {
    if (event.data.u64 == kWoken) {
      wakeup.drain();
      next_look = {};
    } else if (event.data.u64 == kListening) {
      take_connections();
    } else if (const auto found = connections.find(event.data.u64 >> 1);
               found != connections.end()) {
      const bool of_server = (event.data.u64 & 1) != 0;
      pass(*found->second, of_server, event.events);
    }
  }

  void take_connections() {
    for (int i = 0; i < kTakenAtOnce && !stopping; ++i) {
      const int one = accept4(listening.get(), nullptr, nullptr,
                              SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (one < 0) {
        const bool full = errno == EMFILE || errno == ENFILE;
        if (full && close_oldest("the system's limit of open files")) continue;
        if (full) listen_again(false);
        return;
      }
      gateway::notice_the_dead(one);
      auto fresh = std::make_unique<Connection>();
      fresh->id = ++last_id;
      fresh->client.reset(one);
      fresh->address = gateway::peer_address(one);
      fresh->network = gateway::network_of(fresh->address);
      fresh->begun = system_clock().now();
      Connection& added = *fresh;
      connections.emplace(added.id, std::move(fresh));
      watch(one, 0, added.id << 1, EPOLL_CTL_ADD);
      update(added);
      unknown.add(added.id, added.network);
      const auto limit = static_cast<size_t>(options.most_unknown);
      if (unknown.count() <= limit) continue;
      close_oldest(fmt::format("the limit of {}", limit));
    }
  }

  // At the limit of open files a listening socket would be ready all the time.
  void listen_again(bool yes) {
    watch(listening.get(), yes && opened ? uint32_t{EPOLLIN} : 0U, kListening,
          EPOLL_CTL_MOD);
  }

  // So that no network shuts out others. False: there is none.
  bool close_oldest(const std::string& limit) {
    const auto oldest = connections.find(unknown.one_too_many());
    if (oldest == connections.end()) return false;
    Connection& one = *oldest->second;
    notice("unknown " + one.network,
           fmt::format("{} has opened {} connections without a key that is "
                       "allowed; its oldest ones are closed ({})",
                       one.network, unknown.count_of(one.network), limit));
    close(one);
    return true;
  }

  // Greets a client, and queues what it says first: its HELLO. An unknown one
  // that says less costs no server anything.
  void recognise(Connection& one) {
    const std::string_view said = one.in.waiting();
    if (said.empty() || one.asked) return;
    if (!one.greeted) one.out.append(curve_hello::server_greeting());
    one.greeted = true;
    one.closing = !curve_hello::may_begin(said);
    if (one.closing || said.size() < curve_hello::kBytes) return;
    one.asked = true;
    unknown.wait(one.id, one.network);
  }

  // Those whose turn it is, where it is time.
  void open_hellos() {
    for (int i = 0; i < kOpenedAtOnce; ++i) {
      const auto found = connections.find(unknown.next(system_clock().now()));
      if (found == connections.end()) return;
      open_hello(*found->second);
    }
  }

  // Finds its server.
  void open_hello(Connection& one) {
    ++hellos;
    const auto server = std::ranges::find_if(servers, [&](const auto& secret) {
      return curve_hello::is_for(one.in.waiting(), secret);
    });
    one.server_number = static_cast<size_t>(server - servers.begin());
    one.closing = server == servers.end() || !reach_server(one);
    settle(one, false);
  }

  bool reach_server(Connection& one) {
    const auto path = sockets.path() / server_name(one.server_number);
    one.name = gateway::connect_local(path.string(), one.server);
    if (one.name.empty()) return false;
    one.out.skip(curve_hello::kGreetingBytes);  // the client has one
    by_name[one.name] = one.id;
    watch(one.server.get(), 0, one.id << 1 | 1, EPOLL_CTL_ADD);
    return true;
  }

  void pass(Connection& one, bool of_server, uint32_t events) {
    const bool over = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (of_server) {
      if ((events & EPOLLIN) != 0 || over)
        one.out.read(one.server.get(), kPiece);
      while (over && !one.out.ended()) {
        if (one.out.read(one.server.get(), kPiece) == 0) one.out.end();
      }
      if (over) one.server.reset();
    } else if ((events & EPOLLIN) != 0 || over) {
      take_in(one);
      if (over) one.in.end();
    }
    settle(one, over && !of_server);
  }

  void take_in(Connection& one) {
    const size_t most = std::min<uint64_t>(room_of(one), kPiece);
    add_waiting(one, one.in.read(one.client.get(), most));
  }

  // How much more may wait at its server.
  uint64_t room_of(const Connection& one) const {
    const bool wide = one.known() || unknown_waiting < options.unknown_pool;
    const uint64_t limit = one.name.empty() ? curve_hello::kBytes
                           : wide           ? options.window
                                            : options.unknown_bytes;
    const uint64_t own = limit - std::min(limit, one.waiting);
    const auto use = keys.find(key_of(one));
    if (use == keys.end()) return own;
    const uint64_t all = options.key_window;
    return std::min(own, all - std::min(all, use->second.waiting));
  }

  static ServerAndKey key_of(const Connection& one) {
    return {one.server_number, one.key};
  }

  void add_waiting(Connection& one, uint64_t bytes) {
    one.waiting += bytes;
    (one.known() ? keys[key_of(one)].waiting : unknown_waiting) += bytes;
  }

  // Passes on what can be, and closes what is at its end.
  void settle(Connection& one, bool client_gone) {
    if (one.name.empty()) recognise(one);
    if (one.server.get() >= 0) one.in.write(one.server.get());
    one.out.write(one.client.get());
    const bool passed = one.in.empty() || one.name.empty();
    const bool done =
        (one.in.ended() && passed) || (one.out.ended() && one.out.empty());
    if (one.closing || done) return close(one);
    if (client_gone) forget_client(one);
    update(one);
  }

  // Its last words are still for the server.
  void forget_client(Connection& one) {
    watch(one.client.get(), 0, 0, EPOLL_CTL_DEL);
    one.out.end();
  }

  // What epoll is to wait for.
  void update(Connection& one) {
    const bool full = room_of(one) == 0;
    if (full && !one.paused) one.pause_began = system_clock().now();
    one.paused = full;
    const bool passed = one.in.empty() || one.name.empty();
    const bool reads = !one.in.ended() && !full && passed;
    set_events(one.client, one.client_events, reads, !one.out.empty(),
               one.id << 1);
    if (one.server.get() < 0) return;
    set_events(one.server, one.server_events,
               !one.out.ended() && one.out.empty(), !one.in.empty(),
               one.id << 1 | 1);
  }

  void set_events(const Descriptor& descriptor, uint32_t& now, bool in,
                  bool out, uint64_t data) {
    const uint32_t wanted =
        (in ? uint32_t{EPOLLIN} : 0U) | (out ? uint32_t{EPOLLOUT} : 0U);
    if (wanted == now) return;
    now = wanted;
    watch(descriptor.get(), wanted, data, EPOLL_CTL_MOD);
  }

  void close(Connection& one) {
    by_name.erase(one.name);
    unknown.remove(one.id, one.network);
    if (!one.known()) unknown_waiting -= one.waiting;
    if (const auto use = keys.find(key_of(one)); use != keys.end()) {
      use->second.waiting -= one.waiting;
      if (--use->second.connections == 0) keys.erase(use);
    }
    connections.erase(one.id);  // `one` is gone
  }

  // For what a server has said, and what takes too long.
  void look_over(MonoTime now) {
    if (now < next_look) return;
    next_look = now + kLook;
    listen_again(true);
    std::vector<Connection*> all;
    for (const auto& [id, one] : connections) all.push_back(one.get());
    for (Connection* one : all) {
      const bool silent = !one->asked && now - one->begun > options.silence;
      if (silent) one->closing = true;
      if (!one->name.empty() && one->paused &&
          now - one->pause_began > options.stall) {
        one->closing = true;
        notice("stall " + one->address,
               fmt::format("{} has sent {} bytes that its server does not take "
                           "as a message; its connection is closed",
                           one->address, one->waiting));
      }
      if (one->closing) {
        close(*one);
      } else if (one->paused) {
        update(*one);
      }
    }
  }

  void notice(const std::string& about, std::string text) {
    if (notices.size() < kMaxNotices && noticed.size() < kMaxNotices &&
        noticed.insert(about).second) {
      notices.push_back(std::move(text));
    }
  }

  void heard(const std::string& name, const std::string& key) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return;
    Connection& one = *connections.at(found->second);
    (one.known() ? keys[key_of(one)].waiting : unknown_waiting) -= one.waiting;
    one.waiting = 0;
    if (!key.empty() && !one.known()) know(one, key);
    // Others of the same key may wait for room, too.
    if (one.paused || one.closing) wakeup.notify();
  }

  void know(Connection& one, const std::string& key) {
    KeyUse& use = keys[{one.server_number, key}];
    if (use.connections >= options.most_of_key) {
      one.closing = true;
      notice("key " + key,
             fmt::format("{} has {} connections with the key {} already; more "
                         "are closed",
                         one.address, use.connections, short_key(key)));
      return;
    }
    ++use.connections;
    one.key = key;
    unknown.remove(one.id, one.network);
    unknown.trust(one.network);
  }

  const GatewayOptions options;
  const SocketDirectory sockets;
  Descriptor listening;
  Descriptor poll;
  TcpEndpoint address;
  Wakeup wakeup;

  mutable std::mutex mutex;  // guards what follows
  bool stopping = false;
  uint64_t last_id = 0;
  gateway::UnknownConnections unknown;
  uint64_t hellos = 0;           // that were opened
  uint64_t unknown_waiting = 0;  // bytes of unknown connections at servers
  std::map<uint64_t, std::unique_ptr<Connection>> connections;  // by age
  std::map<std::string, uint64_t> by_name;
  std::map<ServerAndKey, KeyUse> keys;
  std::vector<std::string> servers;  // their secret keys
  bool opened = false;
  MonoTime next_look{};
  std::vector<std::string> notices;
  std::set<std::string> noticed;

  std::thread thread;
};

Gateway::Gateway(const GatewayOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

Gateway::~Gateway() = default;

std::string Gateway::endpoint() const { return impl_->address.text(); }

std::string Gateway::add_server(const std::string& secret_key) {
  const std::lock_guard lock(impl_->mutex);
  impl_->servers.push_back(secret_key);
  return impl_->sockets.endpoint(server_name(impl_->servers.size() - 1));
}

void Gateway::open() {
  const std::lock_guard lock(impl_->mutex);
  impl_->opened = true;
  impl_->listen_again(true);
}

std::string Gateway::unknown_addresses() const {
  const std::lock_guard lock(impl_->mutex);
  std::set<std::string> all;
  for (const auto& [id, one] : impl_->connections) {
    if (!one->known() && !one->name.empty()) all.insert(one->address);
  }
  return fmt::format("{}", fmt::join(all, " or "));
}

void Gateway::heard(int descriptor, const std::string& key) {
  const std::string name = gateway::peer_name(descriptor);
  if (name.empty()) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->heard(name, key);
}

std::vector<std::string> Gateway::take_notices() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->notices, {});
}

Gateway::Load Gateway::load() const {
  const std::lock_guard lock(impl_->mutex);
  Load load;
  load.hellos = impl_->hellos;
  for (const auto& [id, one] : impl_->connections) {
    (one->known() ? load.known : load.unknown) += 1;
    load.bytes += one->waiting;
  }
  return load;
}

}  // namespace dtune
