#include "dtune/gang/reliable_link.h"

#include <utility>

namespace dtune::gang {

std::string ReliableLink::send(Message message, int64_t begun, MonoTime now) {
  Packet packet;
  packet.sequence = sent_ + 1;
  packet.ack = received_;
  packet.begun = begun;
  packet.message = std::move(message);
  std::string bytes = encode(std::move(packet));
  ++sent_;  // only now: what cannot be encoded was never sent
  if (pending_.empty()) moved_ = now;
  pending_.push_back({sent_, bytes});
  return bytes;
}

std::string ReliableLink::send_unnumbered(Message message) const {
  Packet packet;
  packet.ack = received_;
  packet.message = std::move(message);
  return encode(std::move(packet));
}

std::vector<std::string> ReliableLink::repeats(MonoTime now) {
  if (pending_.empty() || now - moved_ < kRepeat) return {};
  return all_pending(now);
}

std::vector<std::string> ReliableLink::all_pending(MonoTime now) {
  moved_ = now;
  std::vector<std::string> all;
  for (const Sent& sent : pending_) all.push_back(sent.bytes);
  return all;
}

bool ReliableLink::receive(const Packet& packet) {
  while (!pending_.empty() && pending_.front().sequence <= packet.ack) {
    pending_.pop_front();
  }
  if (packet.sequence == 0) return true;
  if (packet.sequence != received_ + 1) return false;
  received_ = packet.sequence;
  return true;
}

}  // namespace dtune::gang
