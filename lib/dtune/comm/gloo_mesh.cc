#include "dtune/comm/gloo_mesh.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include <fmt/core.h>
#include <gloo/context.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <sys/socket.h>

#include "dtune/base/error.h"
#include "dtune/comm/rank_sockets.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;
namespace tcp = gloo::transport::tcp;

class Mesh final : public gloo::Context {
 public:
  Mesh(int a_rank, int a_size) : gloo::Context(a_rank, a_size) {}
  void adopt(std::shared_ptr<gloo::transport::Device> device,
             std::shared_ptr<gloo::transport::Context> transport) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
  }
};

// One connection of Gloo's. Its own pairs listen, and take any that connects
// first; this one is given a connection whose other end is known.
class KnownPair final : public tcp::Pair {
 public:
  KnownPair(tcp::Context* context, tcp::Device* device, int rank,
            milliseconds timeout)
      : tcp::Pair(context, device, rank, timeout) {
    device_->unregisterDescriptor(fd_, this);
    const std::lock_guard lock(m_);
    Descriptor listening(std::exchange(fd_, -1));
  }

  void adopt(Descriptor socket) {
    const std::lock_guard lock(m_);
    fd_ = socket.release();
    handleConnected();
  }
};

class KnownPairs final : public tcp::Context {
 public:
  KnownPairs(const std::shared_ptr<tcp::Device>& device,
             const GroupOptions& options)
      : tcp::Context(device, options.rank, options.size) {
    setTimeout(std::max(
        milliseconds(1),
        std::chrono::duration_cast<milliseconds>(options.connect_timeout)));
  }

  void adopt(std::vector<Descriptor> sockets) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      auto pair =
          std::make_unique<KnownPair>(this, device_.get(), peer, getTimeout());
      pair->adopt(std::move(sockets[static_cast<size_t>(peer)]));
      pairs_[static_cast<size_t>(peer)] = std::move(pair);
    }
  }
};

// Gloo's thread. A pair listens as soon as it is made, if only until its
// constructor is over: on loopback, whatever network the ranks use.
std::shared_ptr<tcp::Device> make_device() {
  tcp::attr attr;
  attr.hostname = "127.0.0.1";
  return std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(attr));
}

// Gloo writes to sockets whose peer may be gone.
void ignore_broken_pipes() {
  struct sigaction action {};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 &&
      action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

Meshes connect_meshes(const GroupOptions& options, RendezvousStore& store) {
  ignore_broken_pipes();
  auto sockets = connect_ranks(options, 2, store);
  std::array<std::shared_ptr<Mesh>, 2> meshes;
  try {
    const auto device = make_device();
    for (size_t i = 0; i < meshes.size(); ++i) {
      const auto pairs = std::make_shared<KnownPairs>(device, options);
      pairs->adopt(std::move(sockets[i]));
      meshes[i] = std::make_shared<Mesh>(options.rank, options.size);
      meshes[i]->adopt(device, pairs);
    }
  } catch (const std::exception& e) {
    throw Error(ErrorKind::comm,
                fmt::format("{}: {}", group_text(options.name), e.what()));
  }
  return {meshes[0], meshes[1]};
}

void break_mesh(gloo::Context& mesh) {
  // Gloo closes a context where a wait of the application's times out, and only
  // then wakes all that wait.
  char nothing = 0;
  const auto buffer = mesh.createUnboundBuffer(&nothing, sizeof(nothing));
  try {
    buffer->waitRecv(nullptr, milliseconds(1));
  } catch (const std::exception&) {  // as intended
  }
}

}  // namespace dtune
