// The coordinator's side of joining.
#include <array>
#include <cerrno>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/allowed_keys.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"
#include "dtune/comm/quiet_thread.h"

namespace dtune {
namespace {

constexpr const char* kKeyFile = "dtune.key";
constexpr size_t kEnrolBytes = 1024;
constexpr int kEnrolQueue = 16;
constexpr size_t kMaxNotices = 100;

std::string utc(int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min);
}

// In time that does not depend on where they differ.
bool equal_secrets(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

// What strangers call themselves, on one line of a terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 64)) {
    out += c > ' ' && c < 127 ? c : '?';
  }
  return out.empty() ? "?" : out;
}

struct Token {
  JoinSecret secret;
  std::string used_by;  // "": not yet
  int64_t used_ms = 0;
};

JoinSecret expiring(const Clock& clock, Duration lifetime,
                    const std::string& node) {
  return make_join_secret(clock.wall_ms() + lifetime.count() / 1'000'000, node);
}

// Is readable when a file has come into a folder.
class FolderWatch {
 public:
  FolderWatch() : file_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    if (file_ < 0) {
      throw Error(ErrorKind::temporary, "inotify: " + errno_text(errno));
    }
  }
  ~FolderWatch() { close(file_); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  int descriptor() const { return file_; }
  void add(const std::filesystem::path& folder) {
    inotify_add_watch(file_, folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  }
  void drain() {
    std::array<char, 4096> events;
    while (read(file_, events.data(), events.size()) > 0) {
    }
  }

 private:
  int file_;
};

}  // namespace

struct EnrolmentServer::Impl {
  Impl(EnrolmentOptions given, const Clock& the_clock)
      : options(std::move(given)),
        clock(the_clock),
        listener(context, listen_options(options)) {
    load();
    // What lies there was left for an earlier run, whose port is gone.
    if (!options.enrolment.empty()) close_enrolment(options.enrolment);
    port = parse_tcp(listener.remote_endpoint())->port;
    thread = start_quiet_thread([this] { serve(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wakeup.notify();
    thread.join();
    if (!options.enrolment.empty()) close_enrolment(options.enrolment);
  }

  static ListenOptions listen_options(const EnrolmentOptions& options) {
    ListenOptions listen;
    listen.remote = options.endpoint;
    listen.max_message_bytes = kEnrolBytes;
    listen.remote_queue = kEnrolQueue;
    const auto anybody = std::make_shared<AllowList>();
    anybody->admit_all();
    listen.security = ListenSecurity{options.keys, anybody};
    return listen;
  }

  void load() {
    joined = read_allowed_keys(options.allowed_file);
    for (const AllowedKey& one : joined) allowed->add(one.key);
  }

  void serve() {
    while (true) {
      PollSet polls;
      polls.add(wakeup.descriptor());
      const size_t left = polls.add(watch.descriptor());
      listener.add_to(polls);
      polls.wait(std::chrono::seconds(60));
      if (polls.ready(left)) look_into_folder();
      {
        const std::lock_guard lock(mutex);
        if (stopping) return;
      }
      for (std::string& text : listener.take_notices()) notice(std::move(text));
      listener.receive_all([this](const Frames& frames) {
        try {
          answer(frames);
        } catch (const Error& e) {
          notice(fmt::format("joining: {}", e.what()));
        }
      });
    }
  }

  void answer(const Frames& frames) {
    if (frames.size() != 2) return;
    control::Message message;
    try {
      message = decode(frames[1]);
    } catch (const Error& e) {
      listener.send({frames[0], encode(control::Bye{false, e.what()})});
      return;
    }
    const auto* enrol = std::get_if<control::Enrol>(&message);
    if (enrol == nullptr) return;
    const std::string why = admit(listener.sender(), *enrol);
    const control::Message reply =
        why.empty() ? control::Message(control::Enrolled{options.study_id})
                    : control::Message(control::Bye{false, why});
    listener.send({frames[0], encode(reply)});
  }

  // Why not; "": it is allowed from now on.
  std::string admit(const std::string& key, const control::Enrol& enrol) {
    const std::lock_guard lock(mutex);
    if (allowed->contains(key)) return "";
    const std::string node = printable(enrol.node);
    Token* token = find(enrol.secret);
    if (token == nullptr && take_left()) token = find(enrol.secret);
    std::string why;
    if (token == nullptr) {
      why = "the token is unknown here: it is mistyped, or of an earlier run";
    } else if (!token->used_by.empty()) {
      why = fmt::format("the token was used by {} at {}", token->used_by,
                        utc(token->used_ms));
    } else if (!token->secret.node.empty() &&
               token->secret.node != enrol.node) {
      why = fmt::format("the token is for {} alone", token->secret.node);
    } else if (clock.wall_ms() >= token->secret.expires_ms) {
      why =
          fmt::format("the token expired at {}", utc(token->secret.expires_ms));
    }
    if (!why.empty()) {
      notice_locked(fmt::format("{} may not join: {}", node, why));
      return why +
             " (each machine needs a fresh token: dtune token STUDY, there)";
    }
    try {
      remember(key, node);
    } catch (const Error& e) {
      notice_locked(fmt::format("{} may not join: {}", node, e.what()));
      return "the coordinator cannot write down who may join (see there)";
    }
    token->used_by = node;
    token->used_ms = clock.wall_ms();
    allowed->add(key);
    publish();
    notice_locked(fmt::format("{} has joined; its key {} is kept in {}", node,
                              short_key(key), options.allowed_file.string()));
    return "";
  }

  Token* find(const std::string& secret) {
    Token* found = nullptr;
    for (Token& token : tokens) {
      if (equal_secrets(token.secret.text, secret)) found = &token;
    }
    return found;
  }

  // Tokens that other processes have made; false: none.
  bool take_left() {
    if (options.enrolment.empty()) return false;
    const std::vector<JoinSecret> left = take_secrets(options.enrolment);
    for (const JoinSecret& secret : left) tokens.push_back({secret, "", 0});
    return !left.empty();
  }

  // What other processes have left in the folder.
  void look_into_folder() {
    watch.drain();
    const std::lock_guard lock(mutex);
    if (take_left()) publish();
    take_revocations(options.enrolment,
                     [this](const std::string& node) { revoke(node); });
  }

  void revoke(const std::string& node) {
    std::erase_if(tokens, [&node](const Token& token) {
      return token.used_by.empty() &&
             (node.empty() || token.secret.node == node);
    });
    publish();
    if (node.empty()) {
      notice_locked("the tokens that were not used are revoked");
      return;
    }
    std::vector<AllowedKey> left;
    for (const AllowedKey& one : joined) {
      if (one.node != node) left.push_back(one);
    }
    write_allowed_keys(options.allowed_file, left);
    for (const AllowedKey& one : joined) {
      if (one.node == node) allowed->remove(one.key);
    }
    joined = std::move(left);
    notice_locked(fmt::format("{} is revoked: it may not join again", node));
  }

  void publish() {
    if (options.enrolment.empty() || !opened) return;
    std::vector<JoinSecret> usable;
    for (const Token& token : tokens) {
      const bool good =
          token.used_by.empty() && clock.wall_ms() < token.secret.expires_ms;
      if (good) usable.push_back(token.secret);
    }
    publish_tokens(options.enrolment, usable);
  }

  void remember(const std::string& key, const std::string& node) {
    std::vector<AllowedKey> more = joined;
    more.push_back({key, node, utc(clock.wall_ms())});
    write_allowed_keys(options.allowed_file, more);
    joined = std::move(more);
  }

  void notice(std::string text) {
    const std::lock_guard lock(mutex);
    notice_locked(std::move(text));
  }

  void notice_locked(std::string text) {
    if (notices.size() < kMaxNotices) notices.push_back(std::move(text));
  }

  const EnrolmentOptions options;
  const Clock& clock;
  const std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>();
  SocketContext context;
  Listener listener;  // used by the thread alone once it runs
  Wakeup wakeup;
  FolderWatch watch;
  int port = 0;
  std::mutex mutex;  // guards what follows
  bool stopping = false;
  std::deque<Token> tokens;
  std::vector<std::string> notices;
  std::vector<AllowedKey> joined;
  bool opened = false;  // other processes may leave something
  std::thread thread;
};

CurveKeys load_cluster_keys(const std::filesystem::path& folder) {
  const std::filesystem::path beside = folder / kKeyFile;
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return read_secret_key(beside);
  return read_secret_key(config_directory() / kKeyFile);
}

EnrolmentServer::EnrolmentServer(EnrolmentOptions options, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(options), clock)) {}

EnrolmentServer::~EnrolmentServer() = default;

ListenSecurity EnrolmentServer::security() const {
  return {impl_->options.keys, impl_->allowed};
}

std::string EnrolmentServer::endpoint() const {
  auto tcp = parse_tcp(impl_->options.endpoint);
  tcp->port = impl_->port;
  return tcp->text();
}

std::string EnrolmentServer::make_token(Duration lifetime) {
  const JoinSecret secret = expiring(impl_->clock, lifetime, "");
  const std::lock_guard lock(impl_->mutex);
  impl_->tokens.push_back({secret, "", 0});
  impl_->publish();
  return JoinToken{impl_->port, impl_->options.keys.public_key, secret.text}
      .text();
}

void EnrolmentServer::open_enrolment(const std::string& endpoint) {
  dtune::open_enrolment(
      impl_->options.enrolment,
      {endpoint, impl_->port, impl_->options.keys.public_key});
  impl_->watch.add(impl_->options.enrolment);
  const std::lock_guard lock(impl_->mutex);
  impl_->opened = true;
  impl_->publish();
}

std::string make_token_beside(const std::filesystem::path& folder,
                              const EnrolmentPoint& enrolment,
                              const std::string& node, Duration lifetime,
                              const Clock& clock) {
  const JoinSecret secret = expiring(clock, lifetime, node);
  leave_secret(folder, secret);
  return JoinToken{enrolment.port, enrolment.server_key, secret.text}.text();
}

std::vector<std::string> EnrolmentServer::take_notices() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->notices, {});
}

}  // namespace dtune
