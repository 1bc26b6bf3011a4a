#include "dtune/gang/server.h"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "dtune/base/quiet_thread.h"
#include "dtune/gang/controller.h"
#include "dtune/gang/protocol.h"
#include "dtune/gang/registry.h"

namespace dtune {
namespace {

constexpr Duration kIdle = std::chrono::milliseconds(500);

}  // namespace

struct GangServer::Impl {
  Impl(const ListenOptions& listen, std::function<void()> wake_in)
      : wake(std::move(wake_in)), listener(context, listen) {
    local = listener.local_endpoint();
    remote = listener.remote_endpoint();
    thread = start_quiet_thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      registry.close_all("the study's server ends");
    }
    ending = true;
    wakeup.notify();
    thread.join();
  }

  // The thread. The listener is its own.

  void run() {
    PollSet polls;
    listener.add_to(polls);
    polls.add(wakeup.descriptor());
    bool idle = true;
    while (!ending) {
      polls.wait(idle ? kIdle : gang::GangController::kTick);
      wakeup.drain();
      // First the messages of members: where this thread was held up, they may
      // have been in time.
      listener.receive_all([this](const Frames& frames) { receive(frames); });
      bool news = false;
      {
        const std::lock_guard lock(mutex);
        registry.tick();
        send_all();
        idle = registry.idle();
        news = std::exchange(woken, registry.has_events()) !=
               registry.has_events();
      }
      if (news && wake) wake();
    }
    const std::lock_guard lock(mutex);
    send_all();  // that all is closed
  }

  void receive(const Frames& frames) {
    const std::lock_guard lock(mutex);
    for (size_t i = 1; i < frames.size(); ++i) {
      registry.receive(frames.front(), frames[i], listener.sender());
    }
    send_all();
  }

  // What cannot be sent now and matters is repeated.
  void send_all() {
    for (gang::GangRegistry::Outgoing& out : registry.take_outbox()) {
      if (!out.peer.empty()) {
        listener.send({std::move(out.peer), std::move(out.bytes)});
      }
    }
  }

  std::function<void()> wake;
  SocketContext context;
  Listener listener;
  Wakeup wakeup;
  std::string local;
  std::string remote;
  std::atomic<bool> ending = false;

  mutable std::mutex mutex;  // guards registry and woken
  gang::GangRegistry registry;
  bool woken = false;  // of the events that wait

  std::thread thread;
};

GangServer::GangServer(const ListenOptions& listen, std::function<void()> wake)
    : impl_(std::make_unique<Impl>(listen, std::move(wake))) {}
GangServer::~GangServer() = default;

std::string GangServer::local_endpoint() const { return impl_->local; }
std::string GangServer::remote_endpoint() const { return impl_->remote; }

void GangServer::open(const GangOptions& options) {
  const std::lock_guard lock(impl_->mutex);
  impl_->registry.open(options);
  impl_->wakeup.notify();
}

void GangServer::close(const std::string& gang, const std::string& why) {
  const std::lock_guard lock(impl_->mutex);
  impl_->registry.close(gang, why);
  impl_->wakeup.notify();
}

void GangServer::admit(const std::string& gang, int member,
                       const std::string& key) {
  const std::lock_guard lock(impl_->mutex);
  impl_->registry.admit(gang, member, key);
}

bool GangServer::can_lose(const std::string& gang, int member) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->registry.can_lose(gang, member);
}

void GangServer::member_lost(const std::string& gang, int member,
                             const std::string& why) {
  const std::lock_guard lock(impl_->mutex);
  impl_->registry.member_lost(gang, member, why);
  impl_->wakeup.notify();
}

std::vector<GangEvent> GangServer::take_events() {
  const std::lock_guard lock(impl_->mutex);
  impl_->woken = false;
  return impl_->registry.take_events();
}

GangStatus GangServer::status(const std::string& gang) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->registry.status(gang);
}

void GangServer::trace_to(const std::filesystem::path& file) {
  const std::lock_guard lock(impl_->mutex);
  impl_->registry.trace_to(file);
  impl_->wakeup.notify();
}

}  // namespace dtune
