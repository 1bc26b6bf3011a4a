// ZeroMQ between two processes, with and without CURVE: plain pair sockets with
// libzmq's own settings, as the floor of what the control plane costs.
#include <array>
#include <cstring>

#include "app/comm_work.h"
#include <fmt/core.h>
#include <zmq.h>

namespace dtune {
namespace {

constexpr size_t kKeyBytes = 41;  // Z85 and a zero

struct KeyPair {
  std::array<char, kKeyBytes> public_key{};
  std::array<char, kKeyBytes> secret_key{};
};

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorKind::comm, fmt::format("bench comm: zeromq: {}: {}", what,
                                           zmq_strerror(zmq_errno())));
}

void expect(int result, const char* what) {
  if (result < 0) fail(what);
}

KeyPair make_keys() {
  KeyPair keys;
  expect(zmq_curve_keypair(keys.public_key.data(), keys.secret_key.data()),
         "no CURVE in this libzmq");
  return keys;
}

class ZeromqPingPong final : public PingPong {
 public:
  ZeromqPingPong(const CommRank& rank, bool curve, RendezvousStore& store)
      : PingPong(rank.rank),
        context_(zmq_ctx_new()),
        socket_(zmq_socket(context_, ZMQ_PAIR)) {
    const int patience = static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(kCommPatience)
            .count());
    set(ZMQ_RCVTIMEO, patience);
    set(ZMQ_SNDTIMEO, patience);
    if (rank.rank == 0) {
      listen(rank.address, curve, store);
    } else {
      connect(curve, store);
    }
  }
  ~ZeromqPingPong() override {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  ZeromqPingPong(const ZeromqPingPong&) = delete;
  ZeromqPingPong& operator=(const ZeromqPingPong&) = delete;

 protected:
  void send(std::span<const std::byte> data) override {
    expect(zmq_send(socket_, data.data(), data.size(), 0), "send");
  }
  void receive(std::span<std::byte> data) override {
    const int size = zmq_recv(socket_, data.data(), data.size(), 0);
    expect(size, "receive");
    if (static_cast<size_t>(size) != data.size()) {
      throw Error(ErrorKind::comm,
                  fmt::format("bench comm: zeromq: {} bytes came, not {}", size,
                              data.size()));
    }
  }

 private:
  void set(int option, int value) {
    expect(zmq_setsockopt(socket_, option, &value, sizeof(value)), "option");
  }
  void set_key(int option, const char* key) {
    expect(zmq_setsockopt(socket_, option, key, kKeyBytes), "key");
  }

  void listen(const std::string& address, bool curve, RendezvousStore& store) {
    if (curve) {
      const KeyPair keys = make_keys();
      set(ZMQ_CURVE_SERVER, 1);
      set_key(ZMQ_CURVE_SECRETKEY, keys.secret_key.data());
      store.set("key", keys.public_key.data());
    }
    expect(zmq_bind(socket_, fmt::format("tcp://{}:*", address).c_str()),
           "bind");
    std::array<char, 256> endpoint{};
    size_t size = endpoint.size();
    expect(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, endpoint.data(), &size),
           "endpoint");
    store.set("endpoint", endpoint.data());
  }

  void connect(bool curve, RendezvousStore& store) {
    const std::string endpoint = store.get("endpoint", kCommPatience);
    if (curve) {
      const KeyPair keys = make_keys();
      set_key(ZMQ_CURVE_SERVERKEY, store.get("key", kCommPatience).c_str());
      set_key(ZMQ_CURVE_PUBLICKEY, keys.public_key.data());
      set_key(ZMQ_CURVE_SECRETKEY, keys.secret_key.data());
    }
    expect(zmq_connect(socket_, endpoint.c_str()), "connect");
  }

  void* context_;
  void* socket_;
};

}  // namespace

std::unique_ptr<CommWork> make_zeromq_work(const CommRank& rank, bool curve,
                                           RendezvousStore& store) {
  return std::make_unique<ZeromqPingPong>(rank, curve, store);
}

}  // namespace dtune
