// What is behind GangClient: the member's threads (client.cc) and the one that
// keeps in touch with the server (client_thread.cc) share it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "dtune/base/turn_clock.h"
#include "dtune/comm/socket.h"
#include "dtune/gang/client.h"
#include "dtune/gang/clock_offset.h"
#include "dtune/gang/reliable_link.h"

namespace dtune {

// Of the thread: it looks around at least that often, unless it is held up.
constexpr Duration kLongestTurn = std::chrono::seconds(1);

// The machine's clock, in nanoseconds.
inline int64_t machine_ns() {
  return system_clock().now().time_since_epoch().count();
}

struct GangClient::Impl final : RendezvousStore {
  Impl(const RankInfo& rank_in, GiveUp give_up_in);
  ~Impl() override;

  // The member's threads.

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Duration timeout) override;
  void enqueue(gang::Message message);
  void begin_step(const gang::Begin& begin);
  void applied(int64_t updates);
  void leave_step();

  // Under the lock.

  std::optional<gang::Order> next_order();
  void check_server() const;
  Duration stood_still() const;
  void send(gang::Message message);
  void join();
  void flush_trace();

  // The thread.

  void run();
  void send_outbox();
  void send_heartbeat();
  void receive_all();
  void receive(gang::Packet packet);
  void take(gang::Order order, int64_t of_begin);
  void on(const gang::Welcome& welcome);
  void start_anew();
  void on(const gang::Again& again);
  void on(const gang::Pong& pong);
  void on(const gang::StoreValue& value);
  void on(const gang::TraceOn& trace);
  void on(const gang::GiveUp& order);
  template <class T>
  void on(const T& /*of_a_member*/) {}  // what only a server hears

  const RankInfo rank;
  const GiveUp give_up;  // may be empty
  const std::string address;
  const std::string process;
  SocketContext context;
  Socket socket;  // of the constructor, then of the thread
  Wakeup wakeup;
  TraceRecorder recorder;

  std::atomic<const char*> phase_text{"starting"};
  std::atomic<int64_t> phase_number{-1};
  std::atomic<int64_t> phase_since{machine_ns()};

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  gang::ReliableLink link;
  std::deque<std::string> outbox;
  std::deque<gang::Order> orders;
  std::optional<gang::Order> end;
  std::optional<gang::Begin> step;  // that this member is in
  int64_t begun = 0;
  int64_t session = 0;  // 0: not welcomed yet
  MonoTime joined_at{};
  MonoTime heard{};
  TurnClock turns{kLongestTurn};  // of the thread: the server's silence
  MonoTime awake_at{};            // when the thread looks around next
  Duration stood_still_before{0};
  Duration heartbeat{std::chrono::milliseconds(200)};
  Duration lease{std::chrono::seconds(15)};
  std::map<std::string, std::string> own_values;
  std::map<std::string, std::string> values;
  std::map<std::string, int> wanted;
  std::map<std::string, double> gauges;
  gang::ClockOffset clock;  // the server's
  bool ending = false;

  std::thread thread;
};

}  // namespace dtune
