#include "dtune/comm/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr std::string_view kIpc = "ipc://";
constexpr size_t kMaxFrames = 100'000;  // of one message

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::comm,
              fmt::format("{}: {}", what, zmq_strerror(zmq_errno())));
}

void set_option(void* socket, int option, int64_t value) {
  const bool wide = option == ZMQ_MAXMSGSIZE;
  const int narrow = static_cast<int>(value);
  const int rc = wide ? zmq_setsockopt(socket, option, &value, sizeof value)
                      : zmq_setsockopt(socket, option, &narrow, sizeof narrow);
  if (rc != 0) fail("ZeroMQ socket option");
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

}  // namespace

SocketContext::SocketContext() : handle_(zmq_ctx_new()) {
  if (handle_ == nullptr) fail("ZeroMQ");
}

SocketContext::~SocketContext() { zmq_ctx_term(handle_); }

Socket::Socket(const SocketContext& context, Kind kind,
               size_t max_message_bytes)
    : handle_(zmq_socket(context.handle(),
                         kind == Kind::router ? ZMQ_ROUTER : ZMQ_DEALER)) {
  if (handle_ == nullptr) fail("ZeroMQ socket");
  set_option(handle_, ZMQ_LINGER, kLingerMs);
  set_option(handle_, ZMQ_SNDHWM, kQueue);
  set_option(handle_, ZMQ_RCVHWM, kQueue);
  set_option(handle_, ZMQ_MAXMSGSIZE, static_cast<int64_t>(max_message_bytes));
  set_option(handle_, ZMQ_HANDSHAKE_IVL, 10'000);
  // Without it what cannot be routed vanishes without a word.
  if (kind == Kind::router) set_option(handle_, ZMQ_ROUTER_MANDATORY, 1);
  if (kind == Kind::dealer) set_option(handle_, ZMQ_RECONNECT_IVL, 50);
}

Socket::~Socket() { zmq_close(handle_); }

void Socket::bind(const std::string& endpoint) {
  check_endpoint(endpoint);
  if (zmq_bind(handle_, endpoint.c_str()) == 0) return;
  if (zmq_errno() == EADDRINUSE) {
    throw Error(ErrorKind::temporary,
                fmt::format("{}: already in use (is another dtune running? "
                            "choose another port, or 0 for any)",
                            endpoint));
  }
  fail(fmt::format("cannot listen on '{}'", endpoint));
}

void Socket::connect(const std::string& endpoint) {
  check_endpoint(endpoint);
  if (zmq_connect(handle_, endpoint.c_str()) != 0) {
    fail(fmt::format("cannot connect to '{}'", endpoint));
  }
}

std::string Socket::bound_endpoint() const {
  std::string text(512, '\0');
  size_t size = text.size();
  if (zmq_getsockopt(handle_, ZMQ_LAST_ENDPOINT, text.data(), &size) != 0) {
    fail("ZeroMQ endpoint");
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
    fail("cannot send");
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
      fail("cannot receive");
    }
    if (frames.size() < kMaxFrames) {
      frames.emplace_back(static_cast<const char*>(zmq_msg_data(&part)),
                          zmq_msg_size(&part));
    }
    const bool more = zmq_msg_more(&part) != 0;
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
  if (rc < 0 && zmq_errno() != EINTR) fail("poll");
  for (size_t i = 0; i < items.size(); ++i) {
    entries_[i].ready = rc > 0 && items[i].revents != 0;
  }
}

Wakeup::Wakeup() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw Error(ErrorKind::temporary, "eventfd: " + errno_text(errno));
  }
}

Wakeup::~Wakeup() { close(descriptor_); }

void Wakeup::notify() noexcept {
  const uint64_t one = 1;
  // Fails only where the counter is full, i.e. the waiter is awake already.
  [[maybe_unused]] const auto n = write(descriptor_, &one, sizeof one);
}

void Wakeup::drain() noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const auto n = read(descriptor_, &count, sizeof count);
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
    std::string name = (root / "dtune-XXXXXX").string();
    if (name.size() + 24 > sizeof(sockaddr_un::sun_path)) {
      problem = root.string() + ": its path is too long for sockets";
    } else if (mkdtemp(name.data()) != nullptr) {  // mode 0700
      path_ = name;
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
}

std::string SocketDirectory::endpoint(const std::string& name) const {
  return std::string(kIpc) + (path_ / name).string();
}

}  // namespace dtune
