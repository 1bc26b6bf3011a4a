#include "dtune/cluster/agent_transport.h"

#include <utility>

namespace dtune {
namespace {

class SocketTransport final : public AgentTransport {
 public:
  explicit SocketTransport(const ListenOptions& options)
      : listener_(context_, options) {}

  void poll(Duration patience, Wakeup& wakeup,
            const std::function<void(Frames)>& handle) override {
    PollSet polls;
    const size_t woken = polls.add(wakeup.descriptor());
    listener_.add_to(polls);
    polls.wait(patience);
    if (polls.ready(woken)) wakeup.drain();
    listener_.receive_all(handle);
  }
  bool send(Frames frames) override {
    return listener_.send(std::move(frames));
  }
  const std::string& sender() const override { return listener_.sender(); }
  bool is_local(const std::string& peer) const override {
    return Listener::is_local(peer);
  }
  std::vector<std::string> take_notices() override {
    return listener_.take_notices();
  }
  std::string local_endpoint() const override {
    return listener_.local_endpoint();
  }
  std::string remote_endpoint() const override {
    return listener_.remote_endpoint();
  }

 private:
  SocketContext context_;
  Listener listener_;
};

}  // namespace

std::shared_ptr<AgentTransport> listen_for_agents(
    const ListenOptions& options) {
  return std::make_shared<SocketTransport>(options);
}

}  // namespace dtune
