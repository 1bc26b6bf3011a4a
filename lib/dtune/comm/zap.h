// Which keys may connect: the ZeroMQ Authentication Protocol
// (rfc.zeromq.org/spec/27). Without a ZAP handler libzmq's CURVE admits every
// client that knows the server's public key.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dtune/comm/wakeup.h"

namespace dtune {

// A client that was not let in.
struct Refusal {
  std::string address;     // where it came from
  std::string public_key;  // "" where it had none
};

// The public keys that may connect. Thread-safe; several listeners may share
// one. Taking a key away closes no connection, but a Listener drops what comes
// over it from then on.
class AllowList {
 public:
  // Throws Error(config) where it is no key. False where it was there.
  bool add(const std::string& public_key);
  bool remove(std::string_view public_key);
  // These and no others, from now on. Throws as add().
  void replace(const std::vector<std::string>& public_keys);
  bool contains(std::string_view public_key) const;
  size_t size() const;
  std::vector<std::string> keys() const;

  // Those refused since the last call, the newest kMaxRefusals of them.
  std::vector<Refusal> take_refusals();
  void refused(Refusal refusal);

  static constexpr size_t kMaxRefusals = 100;

 private:
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> keys_;
  std::deque<Refusal> refusals_;
};

// Keys of join tokens: each may enrol one machine and do nothing else. Both are
// called on other threads than their owner's and must be thread-safe.
struct EnrolmentHandler {
  std::function<bool(const std::string& key)> admits;
  // The answer to a message of such a key; "": none.
  std::function<std::string(const std::string& key, const std::string& message)>
      answer;
};

class Gateway;

// Answers ZeroMQ's question whether a client may connect, on a thread of its
// own; one per SocketContext, made by SocketContext::zap() before any socket
// that needs it binds. Unknown clients get "400"; libzmq does not let them
// past the handshake.
class ZapServer {
 public:
  // `context`: a ZeroMQ context, which must outlive this.
  explicit ZapServer(void* context);
  ~ZapServer();
  ZapServer(const ZapServer&) = delete;
  ZapServer& operator=(const ZapServer&) = delete;

  // The domain to give to the sockets that this list is for; `gateway`: through
  // which clients come, may be null, as `enrolment`. Thread-safe.
  std::string add(std::shared_ptr<AllowList> allowed,
                  std::weak_ptr<Gateway> gateway = {},
                  std::shared_ptr<const EnrolmentHandler> enrolment = nullptr);

 private:
  void serve();
  void answer();

  void* socket_;
  Wakeup stop_;
  std::mutex mutex_;
  struct Domain {
    std::shared_ptr<AllowList> allowed;
    std::weak_ptr<Gateway> gateway;
    std::shared_ptr<const EnrolmentHandler> enrolment;
  };
  std::map<std::string, Domain, std::less<>> domains_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // the last: it uses the others
};

}  // namespace dtune
