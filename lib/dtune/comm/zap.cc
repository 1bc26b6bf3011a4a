#include "dtune/comm/zap.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <zmq.h>

#include "dtune/base/error.h"
#include "dtune/base/quiet_thread.h"
#include "dtune/comm/curve.h"
#include "dtune/comm/gateway.h"

namespace dtune {
namespace {

constexpr const char* kEndpoint = "inproc://zeromq.zap.01";
constexpr size_t kCurveKeyBytes = 32;
// Where in a request: version, id, domain, address, routing id, mechanism,
// credentials.
constexpr size_t kVersion = 0;
constexpr size_t kRequestId = 1;
constexpr size_t kDomain = 2;
constexpr size_t kAddress = 3;
constexpr size_t kMechanismFrame = 5;
constexpr size_t kCredentials = 6;

// All frames of the message that is here; empty where there is none.
std::vector<std::string> receive(void* socket) {
  std::vector<std::string> frames;
  bool more = true;
  while (more) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&part);
      return {};
    }
    frames.emplace_back(static_cast<const char*>(zmq_msg_data(&part)),
                        zmq_msg_size(&part));
    more = zmq_msg_more(&part) != 0;
    zmq_msg_close(&part);
  }
  return frames;
}

// The client's public key in Z85; "" where it has none.
std::string key_of(const std::vector<std::string>& request) {
  if (request.size() <= kCredentials || request[kMechanismFrame] != "CURVE" ||
      request[kCredentials].size() != kCurveKeyBytes) {
    return "";
  }
  std::array<char, 41> text{};
  zmq_z85_encode(
      text.data(),
      reinterpret_cast<const unsigned char*>(request[kCredentials].data()),
      kCurveKeyBytes);
  return text.data();
}

void check_public_key(const std::string& text) {
  if (is_curve_key(text)) return;
  throw Error(ErrorKind::config,
              fmt::format("'{}' is not a public key (40 characters of Z85)",
                          text.substr(0, 60)));
}

}  // namespace

bool AllowList::add(const std::string& public_key) {
  check_public_key(public_key);
  const std::lock_guard lock(mutex_);
  return keys_.insert(public_key).second;
}

bool AllowList::remove(std::string_view public_key) {
  const std::lock_guard lock(mutex_);
  const auto it = keys_.find(public_key);
  if (it == keys_.end()) return false;
  keys_.erase(it);
  return true;
}

void AllowList::replace(const std::vector<std::string>& public_keys) {
  for (const std::string& key : public_keys) check_public_key(key);
  const std::lock_guard lock(mutex_);
  keys_ = {public_keys.begin(), public_keys.end()};
}

bool AllowList::contains(std::string_view public_key) const {
  const std::lock_guard lock(mutex_);
  return keys_.contains(public_key);
}

size_t AllowList::size() const {
  const std::lock_guard lock(mutex_);
  return keys_.size();
}

std::vector<std::string> AllowList::keys() const {
  const std::lock_guard lock(mutex_);
  return {keys_.begin(), keys_.end()};
}

std::vector<Refusal> AllowList::take_refusals() {
  const std::lock_guard lock(mutex_);
  std::vector<Refusal> taken(refusals_.begin(), refusals_.end());
  refusals_.clear();
  return taken;
}

void AllowList::refused(Refusal refusal) {
  const std::lock_guard lock(mutex_);
  if (refusals_.size() == kMaxRefusals) refusals_.pop_front();
  refusals_.push_back(std::move(refusal));
}

ZapServer::ZapServer(void* context) : socket_(zmq_socket(context, ZMQ_REP)) {
  const int no_linger = 0;
  if (socket_ == nullptr ||
      zmq_setsockopt(socket_, ZMQ_LINGER, &no_linger, sizeof no_linger) != 0 ||
      zmq_bind(socket_, kEndpoint) != 0) {
    const std::string why = zmq_strerror(zmq_errno());
    if (socket_ != nullptr) zmq_close(socket_);
    throw Error(ErrorKind::comm, "ZeroMQ authentication: " + why);
  }
  thread_ = start_quiet_thread([this] { serve(); });
}

ZapServer::~ZapServer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify();
  thread_.join();
  zmq_close(socket_);
}

std::string ZapServer::add(std::shared_ptr<AllowList> allowed,
                           std::weak_ptr<Gateway> gateway,
                           std::shared_ptr<const EnrolmentHandler> enrolment) {
  const std::lock_guard lock(mutex_);
  std::string domain = fmt::format("dtune{}", domains_.size());
  domains_.emplace(domain, Domain{std::move(allowed), std::move(gateway),
                                  std::move(enrolment)});
  return domain;
}

void ZapServer::serve() {
  while (true) {
    std::array<zmq_pollitem_t, 2> items{
        {{socket_, 0, ZMQ_POLLIN, 0},
         {nullptr, stop_.descriptor(), ZMQ_POLLIN, 0}}};
    zmq_poll(items.data(), static_cast<int>(items.size()), -1);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if ((items[0].revents & ZMQ_POLLIN) != 0) answer();
  }
}

void ZapServer::answer() {
  const std::vector<std::string> request = receive(socket_);
  if (request.size() <= kMechanismFrame) return;  // libzmq sends no such thing
  const std::string key = key_of(request);
  Domain domain;
  {
    const std::lock_guard lock(mutex_);
    const auto it = domains_.find(request[kDomain]);
    if (it != domains_.end()) domain = it->second;
  }
  const auto& allowed = domain.allowed;
  const auto gateway = domain.gateway.lock();
  // Behind a gateway ZeroMQ sees none.
  const std::string address =
      gateway ? gateway->unknown_addresses() : request[kAddress];
  const bool ok = allowed && !key.empty() &&
                  (allowed->contains(key) ||
                   (domain.enrolment && domain.enrolment->admits(key)));
  if (!ok && allowed) allowed->refused({address, key});
  // Version, request id, status, text, user id, metadata.
  const std::array<std::string, 6> reply = {
      request[kVersion],         request[kRequestId], ok ? "200" : "400",
      ok ? "OK" : "unknown key", ok ? key : "",       ""};
  for (size_t i = 0; i < reply.size(); ++i) {
    zmq_send(socket_, reply[i].data(), reply[i].size(),
             ZMQ_DONTWAIT | (i + 1 < reply.size() ? ZMQ_SNDMORE : 0));
  }
}

}  // namespace dtune
