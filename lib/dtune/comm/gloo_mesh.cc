#include "dtune/comm/gloo_mesh.h"

#include <algorithm>
#include <array>
#include <csignal>

#include <fmt/core.h>
#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

namespace dtune {
namespace {

using std::chrono::milliseconds;

// What a rank that is late for the deadline of the others still gets.
constexpr Duration kLastLook = std::chrono::milliseconds(200);

class Mesh final : public gloo::Context {
 public:
  Mesh(int a_rank, int a_size) : gloo::Context(a_rank, a_size) {}
  void adopt(std::shared_ptr<gloo::transport::Device> device,
             std::shared_ptr<gloo::transport::Context> transport) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
  }
};

std::string key_of(const GroupOptions& options, int rank) {
  return fmt::format("{}/gloo/{}", options.name, rank);
}

using Transport = gloo::transport::Context;

// Each pair listens at an address of its own: a rank's addresses one after the
// other, by peer, all of one length; first those for data.
std::string create_pairs(const GroupOptions& options, Transport& transport) {
  std::string addresses;
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    const std::vector<char> address =
        transport.createPair(peer)->address().bytes();
    addresses.append(address.begin(), address.end());
  }
  return addresses;
}

// The addresses of all ranks; names those that do not come.
std::vector<std::string> exchange(const GroupOptions& options,
                                  const std::string& mine,
                                  RendezvousStore& store, MonoTime deadline) {
  store.set(key_of(options, options.rank), mine);
  std::vector<std::string> all(static_cast<size_t>(options.size));
  std::vector<int> missing;
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    const Duration left = deadline - system_clock().now();
    try {
      all[static_cast<size_t>(peer)] =
          store.get(key_of(options, peer), std::max(left, kLastLook));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::comm) throw;
      missing.push_back(peer);
    }
  }
  if (!missing.empty()) {
    throw RanksMissing(
        missing, fmt::format("{}: {} did not come within {:g} s",
                             group_text(options.name), rank_names(missing),
                             to_seconds(options.connect_timeout)));
  }
  return all;
}

// `which` mesh: 0 or 1.
void connect_pairs(const GroupOptions& options, int which,
                   const std::vector<std::string>& addresses,
                   Transport& transport) {
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    const std::string& theirs = addresses[static_cast<size_t>(peer)];
    const int others = options.size - 1;
    const size_t length = theirs.size() / static_cast<size_t>(2 * others);
    // Their pair with us; they have none with themselves.
    const int place = options.rank < peer ? options.rank : options.rank - 1;
    const std::string address = theirs.substr(
        static_cast<size_t>(which * others + place) * length, length);
    try {
      transport.getPair(peer)->connect({address.begin(), address.end()});
    } catch (const std::exception& e) {
      throw RanksMissing({peer}, fmt::format("{}: {} cannot be reached: {}",
                                             group_text(options.name),
                                             rank_names({peer}), e.what()));
    }
  }
}

std::shared_ptr<gloo::transport::Device> make_device(
    const GroupOptions& options) {
  gloo::transport::tcp::attr attr;
  attr.hostname = options.address.empty() ? "127.0.0.1" : options.address;
  try {
    return gloo::transport::tcp::CreateDevice(attr);
  } catch (const std::exception& e) {
    throw Error(ErrorKind::comm,
                fmt::format("{}: cannot use the address {}: {}",
                            group_text(options.name), attr.hostname, e.what()));
  }
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

std::string group_text(const std::string& name) {
  return fmt::format("group '{}'", name);
}

Meshes connect_meshes(const GroupOptions& options, RendezvousStore& store) {
  ignore_broken_pipes();
  const MonoTime deadline = system_clock().now() + options.connect_timeout;
  const auto device = make_device(options);
  std::array<std::shared_ptr<Transport>, 2> transports;
  std::string mine;
  try {
    for (auto& transport : transports) {
      transport = device->createContext(options.rank, options.size);
      // Gloo waits for a connection five times as long.
      transport->setTimeout(
          std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(
                                        options.connect_timeout / 5)));
      mine += create_pairs(options, *transport);
    }
  } catch (const std::exception& e) {
    throw Error(ErrorKind::comm,
                fmt::format("{}: cannot listen: {}", group_text(options.name),
                            e.what()));
  }
  const auto addresses = exchange(options, mine, store, deadline);
  std::array<std::shared_ptr<Mesh>, 2> meshes;
  for (int which = 0; which < 2; ++which) {
    const auto i = static_cast<size_t>(which);
    connect_pairs(options, which, addresses, *transports[i]);
    meshes[i] = std::make_shared<Mesh>(options.rank, options.size);
    meshes[i]->adopt(device, transports[i]);
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
