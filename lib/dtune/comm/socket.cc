#include "dtune/comm/socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "dtune/base/error.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/zap.h"

namespace dtune {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr size_t kMaxFrames = 100'000;              // of one message
constexpr std::string_view kFolder = "dtune-run-";  // of sockets

[[noreturn]] void fail_socket(const std::string& what) {
  throw Error(ErrorKind::comm,
              fmt::format("{}: {}", what, zmq_strerror(zmq_errno())));
}

void set_option(void* socket, int option, int64_t value) {
  const bool wide = option == ZMQ_MAXMSGSIZE;
  const int narrow = static_cast<int>(value);
  const int rc = wide ? zmq_setsockopt(socket, option, &value, sizeof value)
                      : zmq_setsockopt(socket, option, &narrow, sizeof narrow);
  if (rc != 0) fail_socket("ZeroMQ socket option");
}

void set_text(void* socket, int option, const std::string& text) {
  if (zmq_setsockopt(socket, option, text.c_str(), text.size()) == 0) return;
  fail_socket("ZeroMQ security option (is a key 40 characters of Z85?)");
}

std::vector<std::filesystem::path> socket_roots() {
  std::vector<std::filesystem::path> roots;
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value == '/') roots.emplace_back(value);
  }
  roots.emplace_back("/tmp");
  return roots;
}

// The lock is held as long as the process lives that made the folder; -1: it is
// another's.
int lock_folder(const std::filesystem::path& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

// Folders of processes that were killed. One that was made just now may not be
// locked yet.
void remove_abandoned(const std::filesystem::path& root) {
  constexpr auto kYoung = std::chrono::minutes(1);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    std::error_code ignored;
    if (!entry.path().filename().string().starts_with(kFolder) ||
        now - entry.last_write_time(ignored) < kYoung) {
      continue;
    }
    const int lock = lock_folder(entry.path());
    if (lock < 0) continue;
    std::filesystem::remove_all(entry.path(), ignored);
    close(lock);
  }
}

bool is_six(const std::string& endpoint) {
  return endpoint.starts_with("tcp://[");
}

// The key that the sender was admitted with. False: it was not asked for one.
bool copy_user(zmq_msg_t& message, std::string& user) {
  const char* text = zmq_msg_gets(&message, "User-Id");
  user.assign(text != nullptr ? text : "");
  return text != nullptr;
}

}  // namespace

SocketContext::SocketContext() : handle_(zmq_ctx_new()) {
  if (handle_ == nullptr) fail_socket("ZeroMQ");
}

SocketContext::~SocketContext() {
  zap_.reset();
  zmq_ctx_term(handle_);
}

ZapServer& SocketContext::zap() const {
  const std::lock_guard lock(mutex_);
  if (!zap_) zap_ = std::make_unique<ZapServer>(handle_);
  return *zap_;
}

Socket::Socket(const SocketContext& context, Kind kind,
               const SocketOptions& options)
    : handle_(zmq_socket(context.handle(),
                         kind == Kind::router ? ZMQ_ROUTER : ZMQ_DEALER)) {
  if (handle_ == nullptr) fail_socket("ZeroMQ socket");
  try {
    set_option(handle_, ZMQ_LINGER, kLingerMs);
    set_option(handle_, ZMQ_SNDHWM, options.queue);
    set_option(handle_, ZMQ_RCVHWM, options.queue);
    set_option(handle_, ZMQ_MAXMSGSIZE,
               static_cast<int64_t>(options.max_message_bytes));
    set_option(handle_, ZMQ_HANDSHAKE_IVL, 10'000);
    // Without it what cannot be routed vanishes without a word. Two peers that
    // claim one identity: the first keeps it (no ZMQ_ROUTER_HANDOVER).
    if (kind == Kind::router) set_option(handle_, ZMQ_ROUTER_MANDATORY, 1);
    if (kind == Kind::dealer) set_option(handle_, ZMQ_RECONNECT_IVL, 50);
    set_curve(options);
  } catch (...) {
    zmq_close(handle_);
    throw;
  }
}

void Socket::set_curve(const SocketOptions& options) {
  if (!options.server && !options.client) return;
  if (const auto& server = options.server) {
    set_option(handle_, ZMQ_CURVE_SERVER, 1);
    set_text(handle_, ZMQ_CURVE_SECRETKEY, server->secret_key);
    set_text(handle_, ZMQ_ZAP_DOMAIN, server->domain);
  } else {
    set_text(handle_, ZMQ_CURVE_SERVERKEY, options.client->server_key);
    set_text(handle_, ZMQ_CURVE_PUBLICKEY, options.client->keys.public_key);
    set_text(handle_, ZMQ_CURVE_SECRETKEY, options.client->keys.secret_key);
    set_option(handle_, ZMQ_IMMEDIATE, 1);
    set_option(handle_, ZMQ_CONNECT_TIMEOUT, 3'000);
    set_option(handle_, ZMQ_RECONNECT_IVL_MAX, 1'000);
  }
  constexpr int kDeadMs = static_cast<int>(kDeadConnection.count() / 1'000'000);
  set_option(handle_, ZMQ_HEARTBEAT_IVL, kDeadMs / 4);
  set_option(handle_, ZMQ_HEARTBEAT_TIMEOUT, kDeadMs);
  set_option(handle_, ZMQ_HEARTBEAT_TTL, kDeadMs);
}

Socket::~Socket() { zmq_close(handle_); }

void Socket::bind(const std::string& endpoint) {
  check_endpoint(endpoint);
  if (is_six(endpoint)) set_option(handle_, ZMQ_IPV6, 1);
  if (zmq_bind(handle_, endpoint.c_str()) == 0) return;
  cannot_listen(endpoint, zmq_errno());
}

void Socket::connect(const std::string& endpoint) {
  check_endpoint(endpoint);
  if (is_six(endpoint)) set_option(handle_, ZMQ_IPV6, 1);
  if (zmq_connect(handle_, endpoint.c_str()) != 0) {
    fail_socket(fmt::format("cannot connect to '{}'", endpoint));
  }
}

std::string Socket::bound_endpoint() const {
  std::string text(512, '\0');
  size_t size = text.size();
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) {
    fail_socket("ZeroMQ endpoint");
  }
  text.resize(size > 0 ? size - 1 : 0);
  return text;
}

bool Socket::send(std::span<const std::string> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    int rc;
    do {
      rc = zmq_send(handle_, frames[i].data(), frames[i].size(),
                    more | ZMQ_DONTWAIT);
    } while (rc < 0 && zmq_errno() == EINTR);
    if (rc >= 0) continue;
    // A message is refused at its first frame or not at all.
    const int code = zmq_errno();
    if (code == EAGAIN || code == EHOSTUNREACH) return false;
    fail_socket("cannot send");
  }
  return true;
}

std::optional<Frames> Socket::receive() {
  Frames frames;
  while (true) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    int rc;
    do {
      rc = zmq_msg_recv(&part, handle_, ZMQ_DONTWAIT);
    } while (rc < 0 && zmq_errno() == EINTR);
    if (rc < 0) {
      const int code = zmq_errno();
      zmq_msg_close(&part);
      if (code == EAGAIN && frames.empty()) return std::nullopt;
      fail_socket("cannot receive");
    }
    if (frames.size() < kMaxFrames) {
      frames.emplace_back(static_cast<const char*>(zmq_msg_data(&part)),
                          zmq_msg_size(&part));
    }
    const bool more = zmq_msg_more(&part) != 0;
    if (!more) {
      const bool known = copy_user(part, sender_);
      source_ = known ? zmq_msg_get(&part, ZMQ_SRCFD) : -1;
    }
    zmq_msg_close(&part);
    if (!more) return frames;
  }
}

size_t PollSet::add(const Socket& socket) {
  entries_.push_back({socket.handle(), -1, false});
  return entries_.size() - 1;
}

size_t PollSet::add(int descriptor) {
  entries_.push_back({nullptr, descriptor, false});
  return entries_.size() - 1;
}

void PollSet::wait(Duration timeout) {
  std::vector<zmq_pollitem_t> items;
  items.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    items.push_back({entry.socket, entry.descriptor, ZMQ_POLLIN, 0});
  }
  const int64_t ms =
      (std::max<int64_t>(timeout.count(), 0) + 999'999) / 1'000'000;
  const int rc = zmq_poll(items.data(), static_cast<int>(items.size()),
                          static_cast<long>(ms));
  if (rc < 0 && zmq_errno() != EINTR) fail_socket("poll");
  for (size_t i = 0; i < items.size(); ++i) {
    entries_[i].ready = rc > 0 && items[i].revents != 0;
  }
}

void check_endpoint(const std::string& endpoint) {
  if (!endpoint.starts_with(kIpc)) return;
  const size_t length = endpoint.size() - kIpc.size();
  constexpr size_t kLimit = sizeof(sockaddr_un::sun_path) - 1;
  if (length <= kLimit) return;
  throw Error(ErrorKind::config,
              fmt::format("{}: the path of a socket has {} bytes, the system "
                          "allows {} (choose a shorter folder, e.g. set "
                          "TMPDIR=/tmp)",
                          endpoint, length, kLimit));
}

SocketDirectory::SocketDirectory() {
  std::string problem = "no folder to try";
  for (const std::filesystem::path& root : socket_roots()) {
    std::string name = (root / (std::string(kFolder) + "XXXXXX")).string();
    if (name.size() + 24 > sizeof(sockaddr_un::sun_path)) {
      problem = root.string() + ": its path is too long for sockets";
    } else if (mkdtemp(name.data()) != nullptr) {  // mode 0700
      path_ = name;
      lock_ = lock_folder(path_);
      remove_abandoned(root);
      return;
    } else {
      problem = root.string() + ": " + errno_text(errno);
    }
  }
  throw Error(ErrorKind::temporary,
              "no folder for sockets: " + problem + " (set TMPDIR)");
}

SocketDirectory::~SocketDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

std::string SocketDirectory::endpoint(const std::string& name) const {
  return std::string(kIpc) + (path_ / name).string();
}

}  // namespace dtune
