#include "dtune/comm/sealed_socket.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include "dtune/base/error.h"
#include "dtune/base/quiet_thread.h"

namespace dtune {
namespace {

constexpr size_t kMostPlain = size_t{32} << 10;
constexpr size_t kLength = 4;
constexpr size_t kTag = crypto_aead_chacha20poly1305_ietf_ABYTES;
constexpr size_t kNonce = crypto_aead_chacha20poly1305_ietf_NPUBBYTES;

static_assert(sizeof(SealKey) == crypto_aead_chacha20poly1305_ietf_KEYBYTES);

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// One direction of a connection.
class Seal {
 public:
  explicit Seal(const SealKey& key) : key_(key) {}
  ~Seal() { sodium_memzero(key_.data(), key_.size()); }
  Seal(const Seal&) = delete;
  Seal& operator=(const Seal&) = delete;

  // Appends a frame to `out`.
  void add(std::string_view plain, std::string& out) {
    const std::string head = length_text(plain.size() + kTag);
    std::string box(plain.size() + kTag, '\0');
    crypto_aead_chacha20poly1305_ietf_encrypt(
        bytes_of(box), nullptr, bytes_of(plain), plain.size(),
        bytes_of(std::string_view(head)), head.size(), nullptr,
        next_nonce().data(), key_.data());
    out += head;
    out += box;
  }

  // Moves whole frames from `in` to `out`, opened. False: one is not what was
  // sent.
  bool take(std::string& in, std::string& out) {
    size_t at = 0;
    while (in.size() - at >= kLength) {
      const std::string_view head = std::string_view(in).substr(at, kLength);
      const size_t size = length_of(head);
      if (size < kTag || size > kMostPlain + kTag) return false;
      if (in.size() - at - kLength < size) break;
      const auto box = std::string_view(in).substr(at + kLength, size);
      const size_t before = out.size();
      out.resize(before + size - kTag);
      if (crypto_aead_chacha20poly1305_ietf_decrypt(
              bytes_of(out) + before, nullptr, nullptr, bytes_of(box),
              box.size(), bytes_of(head), head.size(), next_nonce().data(),
              key_.data()) != 0) {
        return false;
      }
      at += kLength + size;
    }
    in.erase(0, at);
    return true;
  }

 private:
  static std::string length_text(size_t size) {
    std::string text(kLength, '\0');
    for (size_t i = 0; i < kLength; ++i) {
      text[i] = static_cast<char>(size >> (8 * i) & 0xff);
    }
    return text;
  }

  static size_t length_of(std::string_view head) {
    size_t size = 0;
    for (size_t i = 0; i < kLength; ++i) {
      size |= size_t{bytes_of(head)[i]} << (8 * i);
    }
    return size;
  }

  std::array<unsigned char, kNonce> next_nonce() {
    std::array<unsigned char, kNonce> nonce{};
    for (size_t i = 0; i < sizeof frames_; ++i) {
      nonce[i] = static_cast<unsigned char>(frames_ >> (8 * i) & 0xff);
    }
    ++frames_;
    return nonce;
  }

  SealKey key_;
  uint64_t frames_ = 0;
};

// Both connections, and what is on its way between them.
class Relay {
 public:
  Relay(Descriptor network, Descriptor local, const SealKeys& keys)
      : network_(std::move(network)),
        local_(std::move(local)),
        sends_(keys.sends),
        receives_(keys.receives) {}

  void run() {
    while (!over()) {
      std::array<pollfd, 2> items = {
          item(local_, to_network_.empty() && !local_ended_, to_local_),
          item(network_, to_local_.empty() && !network_ended_, to_network_)};
      if (poll(items.data(), items.size(), -1) < 0 && errno != EINTR) return;
      const auto can = [&](size_t which, short what) {
        const auto wanted = static_cast<short>(what | POLLERR | POLLHUP);
        return (items[which].events & what) != 0 &&
               (items[which].revents & wanted) != 0;
      };
      if (can(0, POLLIN)) read_local();
      if (can(1, POLLIN) && !read_network()) return;
      if (can(0, POLLOUT) && !write(local_, to_local_)) return;
      if (can(1, POLLOUT) && !write(network_, to_network_)) return;
    }
  }

 private:
  // What one end has said last has gone to the other.
  bool over() const {
    return (local_ended_ && to_network_.empty()) ||
           (network_ended_ && to_local_.empty());
  }

  // A descriptor of which nothing is wanted would be ready for its end all the
  // time.
  static pollfd item(const Descriptor& socket, bool reads,
                     const std::string& waiting) {
    const auto events = static_cast<short>((reads ? POLLIN : 0) |
                                           (waiting.empty() ? 0 : POLLOUT));
    return {events == 0 ? -1 : socket.get(), events, 0};
  }

  // False at its end.
  static bool read(const Descriptor& socket, std::string& text, size_t most) {
    const size_t before = text.size();
    text.resize(before + most);
    const ssize_t got =
        ::recv(socket.get(), text.data() + before, most, MSG_DONTWAIT);
    const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
    text.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    return got > 0 || later;
  }

  void read_local() {
    std::string plain;
    local_ended_ = !read(local_, plain, kMostPlain);
    if (!plain.empty()) sends_.add(plain, to_network_);
  }

  bool read_network() {
    network_ended_ = !read(network_, from_network_, 2 * kMostPlain);
    return receives_.take(from_network_, to_local_);
  }

  static bool write(const Descriptor& socket, std::string& text) {
    const ssize_t put = ::send(socket.get(), text.data(), text.size(),
                               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0) return errno == EAGAIN || errno == EINTR;
    text.erase(0, static_cast<size_t>(put));
    return true;
  }

  const Descriptor network_;
  const Descriptor local_;
  Seal sends_;
  Seal receives_;
  std::string to_network_;
  std::string from_network_;
  std::string to_local_;
  bool local_ended_ = false;
  bool network_ended_ = false;
};

sockaddr_in name_of(int socket, decltype(&getsockname) get) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  get(socket, reinterpret_cast<sockaddr*>(&name), &size);
  return name;
}

Descriptor tcp_socket() {
  return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

[[noreturn]] void fail_locally() {
  throw Error(ErrorKind::comm,
              "no local connection for ranks: " + errno_text(errno));
}

// Other processes of this machine may connect, too.
Descriptor accept_from(const Descriptor& listening, const sockaddr_in& peer) {
  while (true) {
    Descriptor one(::accept4(listening.get(), nullptr, nullptr,
                             SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (one.get() < 0) fail_locally();
    const sockaddr_in other = name_of(one.get(), &getpeername);
    if (other.sin_port == peer.sin_port &&
        other.sin_addr.s_addr == peer.sin_addr.s_addr) {
      return one;
    }
  }
}

// Both ends of a connection over loopback: Gloo sets options of TCP.
std::pair<Descriptor, Descriptor> connected_pair() {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Descriptor listening = tcp_socket();
  if (::bind(listening.get(), reinterpret_cast<const sockaddr*>(&any),
             sizeof any) != 0 ||
      ::listen(listening.get(), 8) != 0) {
    fail_locally();
  }
  const sockaddr_in here = name_of(listening.get(), &getsockname);
  Descriptor first = tcp_socket();
  if (::connect(first.get(), reinterpret_cast<const sockaddr*>(&here),
                sizeof here) != 0) {
    fail_locally();
  }
  Descriptor second =
      accept_from(listening, name_of(first.get(), &getsockname));
  return {std::move(first), std::move(second)};
}

void set_no_delay(const Descriptor& socket) {
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

Descriptor seal(Descriptor network, const SealKeys& keys) {
  auto [ours, theirs] = connected_pair();
  for (const Descriptor* one : {&network, &ours, &theirs}) set_no_delay(*one);
  auto relay =
      std::make_shared<Relay>(std::move(network), std::move(ours), keys);
  start_quiet_thread([relay] { relay->run(); }).detach();
  return std::move(theirs);
}

}  // namespace dtune
