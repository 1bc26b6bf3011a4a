// The workers of one agent: a process in each slot, or one for every `seats`
// slots, and the messages from and to them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "dtune/cluster/slot_process.h"
#include "dtune/comm/socket.h"

namespace dtune {

// Not thread-safe; blocks as SlotProcess does.
class AgentWorkers {
 public:
  // Takes what a worker, or its slot, has for the coordinator.
  using Send = std::function<void(std::string frame)>;

  // Binds options.endpoint. Slots begin with the first welcome.
  AgentWorkers(const SocketContext& context, SlotOptions options, Send send);

  // The coordinator's welcome: study and limits of the slots. What it has to
  // hear of them is sent again. Where the study's trials cannot be fused, each
  // worker has one slot, and there are fewer of them. REQUIRES: suit().
  void on_welcome(const control::Welcome& welcome, const std::string& frame,
                  MonoTime now);
  // False: those that were started have as many seats as another study's.
  bool suit(const control::Welcome& welcome) const;
  int slots() const { return options_.slots; }
  // The coordinator is lost: workers leave what belonged to its session.
  void leave_session();
  void on_assign(const control::Assign& assign, const std::string& frame);
  void on_kill(const control::Kill& kill, MonoTime now);
  // A message of the coordinator for one of them.
  void forward(int slot, const std::string& frame);

  bool hold_trial() const;
  bool alive() const;
  // The end, in two steps: workers are asked to stop, those that are starting
  // once they are up, and not started again; then they are ended (`hard`:
  // killed at once).
  void close(bool now);
  void shut_down(bool hard, MonoTime now);

  // What to wait for; after the wait, what it showed.
  void add_to(PollSet& polls);
  void look(const PollSet& polls);
  void receive();
  void flush();
  // Looking at processes costs system calls: only when there is a reason.
  bool due(MonoTime now) const { return stirred_ || now >= next_tick_; }
  void tick(MonoTime now);
  MonoTime next_tick() const { return next_tick_; }

 private:
  void start();
  void on_message(const std::string& identity, const std::string& frame);
  SlotProcess* slot(int number);

  SlotOptions options_;
  const Send send_;
  Socket socket_;
  std::string greeting_;  // to one that comes up: the welcome; at last, to stop
  control::Welcome welcome_;
  std::map<int, Frames> outbox_;           // slot -> messages
  std::map<int, std::string> identities_;  // slot -> worker's identity
  std::map<int, std::string> keys_;        // slot -> worker's public key
  std::deque<SlotProcess> slots_;
  MonoTime next_tick_{};
  bool fuses_ = false;    // where the study lets it
  bool stirred_ = false;  // a process wrote, ended or has to
  size_t first_poll_ = 0;
  size_t last_poll_ = 0;
};

}  // namespace dtune
