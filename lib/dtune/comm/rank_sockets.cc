#include "dtune/comm/rank_sockets.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include "dtune/base/error.h"
#include "dtune/base/tcp_socket.h"
#include "dtune/comm/sealed_socket.h"

namespace dtune {
namespace {

// What a rank that is late for the deadline of the others still gets.
constexpr Duration kLastLook = std::chrono::milliseconds(200);
constexpr Duration kRetry = std::chrono::milliseconds(20);
constexpr size_t kMostPending = 64;  // beside those that are expected
constexpr size_t kBytes = 32;        // of secrets, challenges and proofs

using Bytes = std::array<unsigned char, kBytes>;
static_assert(kBytes == crypto_auth_BYTES && kBytes == crypto_auth_KEYBYTES);

Bytes random_bytes() {
  if (sodium_init() < 0) throw Error(ErrorKind::comm, "libsodium fails");
  Bytes bytes;
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

// As a rank puts it into the store: "<port> <secret> <address>", and " sealed"
// where it asks for that.
struct Meeting {
  int port = 0;
  Bytes secret{};
  std::string address;
  bool sealed = false;

  std::string text() const {
    std::array<char, 2 * kBytes + 1> hex{};
    sodium_bin2hex(hex.data(), hex.size(), secret.data(), secret.size());
    return fmt::format("{} {} {}{}", port, hex.data(), address,
                       sealed ? " sealed" : "");
  }
};

// Empty where it is something else.
std::optional<Meeting> parse_meeting(const std::string& text) {
  Meeting meeting;
  std::string hex;
  std::istringstream words(text);
  size_t size = 0;
  if (!(words >> meeting.port >> hex >> meeting.address) ||
      sodium_hex2bin(meeting.secret.data(), kBytes, hex.data(), hex.size(),
                     nullptr, &size, nullptr) != 0 ||
      size != kBytes) {
    return std::nullopt;
  }
  std::string more;
  words >> more;
  meeting.sealed = more == "sealed";
  return meeting;
}

// Which connection of which two ranks.
struct Place {
  uint32_t lower = 0;
  uint32_t higher = 0;
  uint32_t mesh = 0;
};

Bytes key_of(const std::string& group, const Bytes& lower,
             const Bytes& higher) {
  Bytes key;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, kBytes);
  crypto_generichash_update(&state, lower.data(), kBytes);
  crypto_generichash_update(&state, higher.data(), kBytes);
  crypto_generichash_update(
      &state, reinterpret_cast<const unsigned char*>(group.data()),
      group.size());
  crypto_generichash_final(&state, key.data(), kBytes);
  return key;
}

Bytes proof(const Bytes& key, char side, const Bytes& a, const Bytes& b,
            const Place& place) {
  std::string text(1, side);
  text.append(a.begin(), a.end()).append(b.begin(), b.end());
  for (const uint32_t number : {place.lower, place.higher, place.mesh}) {
    for (int shift = 0; shift < 32; shift += 8) {
      text += static_cast<char>(number >> shift & 0xff);
    }
  }
  Bytes out;
  crypto_auth(out.data(), reinterpret_cast<const unsigned char*>(text.data()),
              text.size(), key.data());
  return out;
}

// The higher rank's words.
struct Introduction {
  uint32_t rank = 0;  // network byte order
  uint32_t mesh = 0;
  Bytes challenge{};
  Bytes proof{};
};
static_assert(sizeof(Introduction) == 8 + 2 * kBytes);

AddressList numeric(const std::string& address, int port) {
  AddressList list = numeric_address(address, port);
  if (list == nullptr) {
    throw Error(ErrorKind::comm, address + ": is not a numeric address");
  }
  return list;
}

Descriptor listen_in(const GroupOptions& options) {
  const auto [first, last] = options.ports;
  Descriptor out;
  int code = 0;
  for (int port = first; port <= last; ++port) {
    const AddressList list = numeric(options.address, port);
    out = listen_at(*list, SOMAXCONN);
    if (out.get() >= 0) return out;
    code = errno;
    if (code != EADDRINUSE) break;
  }
  const std::string group = group_text(options.name);
  if (code == EADDRINUSE) {
    throw Error(ErrorKind::comm,
                fmt::format("{}: all ports of {}-{} are in use on {} (--ports: "
                            "one for each rank of this machine)",
                            group, first, last, options.address));
  }
  throw Error(ErrorKind::comm,
              fmt::format("{}: cannot use the address {}: {}", group,
                          options.address, errno_text(code)));
}

// False where the connection is over, or the deadline.
bool wait_for(int descriptor, short events, MonoTime deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - system_clock().now());
  pollfd item{descriptor, events, 0};
  return left.count() > 0 &&
         poll(&item, 1, static_cast<int>(left.count())) == 1 &&
         (item.revents & events) != 0;
}

bool send_all(int descriptor, const void* data, size_t size) {
  // Little, and the first of its direction: it fits into the socket's buffer.
  return send(descriptor, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(size);
}

bool receive_all(int descriptor, void* data, size_t size, MonoTime deadline) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    if (!wait_for(descriptor, POLLIN, deadline)) return false;
    const ssize_t got = recv(descriptor, at, size, MSG_DONTWAIT);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// A connection whose other end has not proved its identity yet.
struct PendingPeer {
  Descriptor socket;
  Bytes challenge{};
  std::string words;
};

class Meetings {
 public:
  Meetings(const GroupOptions& options, int meshes, RendezvousStore& store,
           bool sealed)
      : options_(options),
        sealed_(sealed),
        deadline_(system_clock().now() + options.connect_timeout),
        listening_(listen_in(options)),
        ranks_(static_cast<size_t>(options.size)) {
    for (int mesh = 0; mesh < meshes; ++mesh)
      sockets_.emplace_back(ranks_.size());
    exchange(store);
  }

  std::vector<std::vector<Descriptor>> connect() {
    for (int peer = 0; peer < options_.rank; ++peer) {
      for (size_t mesh = 0; mesh < sockets_.size(); ++mesh) {
        sockets_[mesh][static_cast<size_t>(peer)] = reach(peer, mesh);
      }
    }
    wait_for_higher();
    return std::move(sockets_);
  }

 private:
  // Each rank's port and secret; names the ranks that do not come.
  void exchange(RendezvousStore& store) {
    Meeting& mine = ranks_[static_cast<size_t>(options_.rank)];
    mine = {port_of(listening_.get()), random_bytes(), options_.address,
            sealed_};
    store.set(key(options_.rank), mine.text());
    std::vector<int> missing;
    for (int peer = 0; peer < options_.size; ++peer) {
      if (peer == options_.rank) continue;
      const auto text = said_by(peer, store);
      if (!text) {
        missing.push_back(peer);
        continue;
      }
      const auto meeting = parse_meeting(*text);
      if (!meeting) throw unreachable({peer}, "it has announced no address");
      ranks_[static_cast<size_t>(peer)] = *meeting;
    }
    if (missing.empty()) return;
    throw RanksMissing(
        missing, fmt::format("{}: {} did not come within {:g} s",
                             group_text(options_.name), rank_names(missing),
                             to_seconds(options_.connect_timeout)));
  }

  std::optional<std::string> said_by(int peer, RendezvousStore& store) const {
    const Duration left = deadline_ - system_clock().now();
    try {
      return store.get(key(peer), std::max(left, kLastLook));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::comm) throw;
      return std::nullopt;
    }
  }

  std::string key(int rank) const {
    return fmt::format("{}/gloo/{}", options_.name, rank);
  }

  Bytes key_with(const Place& place) const {
    return key_of(options_.name, ranks_[place.lower].secret,
                  ranks_[place.higher].secret);
  }

  // A connection to a lower rank.
  Descriptor reach(int peer, size_t mesh) {
    const Place place{static_cast<uint32_t>(peer),
                      static_cast<uint32_t>(options_.rank),
                      static_cast<uint32_t>(mesh)};
    do {
      Descriptor socket = call(ranks_[static_cast<size_t>(peer)]);
      if (socket.get() >= 0 && introduce(socket, place)) return socket;
      poll(nullptr, 0, static_cast<int>(kRetry / std::chrono::milliseconds(1)));
    } while (system_clock().now() < deadline_);
    throw silent({peer});
  }

  Descriptor call(const Meeting& peer) const {
    const AddressList list = numeric(peer.address, peer.port);
    Descriptor socket = new_tcp_socket(*list);
    if (socket.get() < 0) return socket;
    const int rc = ::connect(socket.get(), list->ai_addr, list->ai_addrlen);
    int code = rc == 0 ? 0 : errno;
    if (code == EINPROGRESS && wait_for(socket.get(), POLLOUT, deadline_)) {
      socklen_t size = sizeof code;
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    }
    if (code != 0) socket.reset();
    return socket;
  }

  // The connection of two ranks that have met: as it is, or sealed with keys
  // that none else has.
  Descriptor in_use(Descriptor socket, const Place& place, const Bytes& a,
                    const Bytes& b) const {
    const bool sealed =
        ranks_[place.lower].sealed || ranks_[place.higher].sealed;
    if (!sealed) return socket;
    const Bytes key = key_with(place);
    const Bytes up = proof(key, 'u', a, b, place);    // to the higher rank
    const Bytes down = proof(key, 'd', a, b, place);  // to the lower
    const bool is_lower = static_cast<uint32_t>(options_.rank) == place.lower;
    return seal(std::move(socket),
                is_lower ? SealKeys{up, down} : SealKeys{down, up});
  }

  bool introduce(Descriptor& given, const Place& place) const {
    const int socket = given.get();
    const Bytes key = key_with(place);
    Bytes theirs;
    if (!receive_all(socket, theirs.data(), kBytes, deadline_)) return false;
    Introduction mine{
        htonl(place.higher), htonl(place.mesh), random_bytes(), {}};
    mine.proof = proof(key, 'h', theirs, mine.challenge, place);
    Bytes answer;
    if (!send_all(socket, &mine, sizeof mine) ||
        !receive_all(socket, answer.data(), kBytes, deadline_)) {
      return false;
    }
    const Bytes wanted = proof(key, 'l', theirs, mine.challenge, place);
    if (sodium_memcmp(answer.data(), wanted.data(), kBytes) != 0) return false;
    given = in_use(std::move(given), place, theirs, mine.challenge);
    return true;
  }

  void wait_for_higher() {
    const auto higher = static_cast<size_t>(options_.size - 1 - options_.rank);
    size_t expected = higher * sockets_.size();
    while (expected > 0) {
      const Duration left = deadline_ - system_clock().now();
      if (left <= Duration(0)) throw silent(not_here());
      std::vector<pollfd> items = {{listening_.get(), POLLIN, 0}};
      for (const PendingPeer& pending : pending_) {
        items.push_back({pending.socket.get(), POLLIN, 0});
      }
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left);
      if (poll(items.data(), items.size(), static_cast<int>(ms.count())) <= 0) {
        continue;
      }
      for (size_t i = items.size() - 1; i > 0; --i) {
        if (items[i].revents == 0) continue;
        if (listen_to(pending_[i - 1])) --expected;
        if (pending_[i - 1].socket.get() < 0) {
          pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i - 1));
        }
      }
      if (items[0].revents != 0) welcome(expected);
    }
  }

  void welcome(size_t expected) {
    PendingPeer pending;
    pending.socket = Descriptor(accept4(listening_.get(), nullptr, nullptr,
                                        SOCK_NONBLOCK | SOCK_CLOEXEC));
    pending.challenge = random_bytes();
    if (pending.socket.get() < 0 ||
        !send_all(pending.socket.get(), pending.challenge.data(), kBytes)) {
      return;
    }
    pending_.push_back(std::move(pending));
    if (pending_.size() > kMostPending + expected) pending_.pop_front();
  }

  // True where it is one of the ranks, whose socket is taken; another's is
  // closed.
  bool listen_to(PendingPeer& pending) {
    Introduction words;
    std::array<char, sizeof words> bytes;
    const size_t left = sizeof words - pending.words.size();
    const ssize_t got =
        recv(pending.socket.get(), bytes.data(), left, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got > 0) pending.words.append(bytes.data(), static_cast<size_t>(got));
    if (got > 0 && pending.words.size() < sizeof words) return false;
    Descriptor socket = std::move(pending.socket);
    if (got <= 0) return false;
    std::memcpy(&words, pending.words.data(), sizeof words);
    const Place place{static_cast<uint32_t>(options_.rank), ntohl(words.rank),
                      ntohl(words.mesh)};
    if (!is_awaited(place)) return false;
    const Bytes key = key_with(place);
    const Bytes wanted =
        proof(key, 'h', pending.challenge, words.challenge, place);
    if (sodium_memcmp(words.proof.data(), wanted.data(), kBytes) != 0) {
      return false;
    }
    const Bytes mine =
        proof(key, 'l', pending.challenge, words.challenge, place);
    if (!send_all(socket.get(), mine.data(), kBytes)) return false;
    sockets_[place.mesh][place.higher] =
        in_use(std::move(socket), place, pending.challenge, words.challenge);
    return true;
  }

  bool is_awaited(const Place& place) const {
    return place.higher > place.lower && place.higher < ranks_.size() &&
           place.mesh < sockets_.size() &&
           sockets_[place.mesh][place.higher].get() < 0;
  }

  std::vector<int> not_here() const {
    std::vector<int> missing;
    for (int peer = options_.rank + 1; peer < options_.size; ++peer) {
      const bool here =
          std::all_of(sockets_.begin(), sockets_.end(), [&](const auto& mesh) {
            return mesh[static_cast<size_t>(peer)].get() >= 0;
          });
      if (!here) missing.push_back(peer);
    }
    return missing;
  }

  RanksMissing unreachable(const std::vector<int>& ranks,
                           const std::string& why) const {
    return {ranks,
            fmt::format("{}: {} cannot be reached: {}",
                        group_text(options_.name), rank_names(ranks), why)};
  }
  RanksMissing silent(const std::vector<int>& ranks) const {
    return unreachable(
        ranks, fmt::format("no connection within {:g} s (are the ports of "
                           "--ports open between the machines?)",
                           to_seconds(options_.connect_timeout)));
  }

  const GroupOptions& options_;
  const bool sealed_;
  const MonoTime deadline_;
  const Descriptor listening_;
  std::vector<Meeting> ranks_;
  std::vector<std::vector<Descriptor>> sockets_;
  std::deque<PendingPeer> pending_;
};

}  // namespace

std::string group_text(const std::string& name) {
  return fmt::format("group '{}'", name);
}

std::vector<std::vector<Descriptor>> connect_ranks(const GroupOptions& given,
                                                   int meshes,
                                                   RendezvousStore& store,
                                                   bool sealed) {
  GroupOptions options = given;
  if (options.address.empty()) options.address = "127.0.0.1";
  return Meetings(options, meshes, store, sealed).connect();
}

}  // namespace dtune
