// One direction each of a conversation that survives broken connections: what
// is sent arrives once and in order, as long as both sides live.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/gang/protocol.h"

namespace dtune::gang {

// ZeroMQ delivers whole messages in order, but loses what was under way when a
// connection broke. So each message carries a sequence number; the receiver
// takes the next one only and acknowledges it; the sender repeats from
// there (go-back-N, Tanenbaum, Computer Networks, 3.4.2) where no word of it
// has come for `kRepeat`. Not thread-safe.
class ReliableLink {
 public:
  // The bytes to send now; they are kept until they are acknowledged.
  std::string send(Message message, int64_t begun, MonoTime now);
  // Of a message that may get lost (sequence 0).
  std::string send_unnumbered(Message message) const;
  // What to send again now.
  std::vector<std::string> repeats(MonoTime now);
  // What to send again after a new connection.
  std::vector<std::string> all_pending(MonoTime now);

  // Takes note of the acknowledgement. Whether the packet is the next one (or
  // unnumbered); others have been here before, or will come again.
  bool receive(const Packet& packet);

  size_t pending() const { return pending_.size(); }

  static constexpr Duration kRepeat = std::chrono::milliseconds(1000);

 private:
  struct Sent {
    int64_t sequence = 0;
    std::string bytes;
  };
  std::deque<Sent> pending_;
  int64_t sent_ = 0;
  int64_t received_ = 0;
  MonoTime moved_{};  // when pending_ last shrank or was sent
};

}  // namespace dtune::gang
