// The coordinator's side of joining.
#include <algorithm>
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
#include "dtune/base/quiet_thread.h"
#include "dtune/cluster/allowed_keys.h"
#include "dtune/cluster/join.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/keys.h"

namespace dtune {
namespace {

constexpr const char* kKeyFile = "dtune.key";
constexpr size_t kMaxNotices = 100;

std::string utc(int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                     parts.tm_min);
}

// A name that another machine has sent, fit for one line of a terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, 64)) {
    out += c > ' ' && c < 127 ? c : '?';
  }
  return out.empty() ? "?" : out;
}

struct Token {
  IssuedToken issued;
  std::string used_by;  // "": not yet
  int64_t used_ms = 0;
};

int64_t expiry(const Clock& clock, Duration lifetime) {
  return clock.wall_ms() + lifetime.count() / 1'000'000;
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
      : options(std::move(given)), clock(the_clock) {
    joined = read_allowed_keys(options.allowed_file);
    for (const AllowedKey& one : joined) allowed->add(one.key);
    // What lies there was left for an earlier run.
    if (!options.enrolment.empty()) close_enrolment(options.enrolment);
    thread = start_quiet_thread([this] { run(); });
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

  // The thread: what other processes leave in the folder.
  void run() {
    while (true) {
      PollSet polls;
      polls.add(wakeup.descriptor());
      const size_t left = polls.add(watch.descriptor());
      polls.wait(std::chrono::seconds(60));
      if (polls.ready(left)) look_into_folder();
      const std::lock_guard lock(mutex);
      if (stopping) return;
    }
  }

  // As EnrolmentHandler.

  bool admits(const std::string& key) {
    const std::lock_guard lock(mutex);
    const Token* token = find(key);
    if (token == nullptr && take_left()) token = find(key);
    if (token == nullptr) return false;
    const std::string why = spent(*token);
    if (!why.empty()) notice_locked("a machine may not join: " + why);
    return why.empty();
  }

  std::string answer(const std::string& key, const std::string& bytes) {
    std::string why;
    try {
      const control::Message message = decode(bytes);
      const auto* enrol = std::get_if<control::Enrol>(&message);
      if (enrol == nullptr) return "";
      why = enrol_with(key, *enrol);
    } catch (const Error& e) {
      why = e.what();
    }
    if (why.empty()) return encode(control::Enrolled{options.study_id});
    return encode(control::Bye{false, why});
  }

  // Why not; "": it is allowed from now on.
  std::string enrol_with(const std::string& token_key,
                         const control::Enrol& enrol) {
    const std::lock_guard lock(mutex);
    if (allowed->contains(enrol.public_key)) return "";
    Token* token = find(token_key);
    const std::string node = printable(enrol.node);
    std::string why = token == nullptr ? "the token is revoked" : spent(*token);
    if (why.empty()) why = refusal(*token, enrol);
    if (!why.empty()) {
      notice_locked(fmt::format("{} may not join: {}", node, why));
      return why +
             " (each machine needs a fresh token: dtune token STUDY, there)";
    }
    try {
      remember(enrol.public_key, node);
    } catch (const Error& e) {
      notice_locked(fmt::format("{} may not join: {}", node, e.what()));
      return "the coordinator cannot write down who may join (see there)";
    }
    token->used_by = node;
    token->used_ms = clock.wall_ms();
    allowed->add(enrol.public_key);
    publish();
    notice_locked(fmt::format("{} has joined; its key {} is kept in {}", node,
                              short_key(enrol.public_key),
                              options.allowed_file.string()));
    return "";
  }

  // Why it lets no machine in (any more); "": it does.
  std::string spent(const Token& token) const {
    if (!token.used_by.empty()) {
      return fmt::format("the token was used by {} at {}", token.used_by,
                         utc(token.used_ms));
    }
    if (clock.wall_ms() < token.issued.expires_ms) return "";
    return fmt::format("the token expired at {}", utc(token.issued.expires_ms));
  }

  static std::string refusal(const Token& token, const control::Enrol& enrol) {
    if (!is_curve_key(enrol.public_key)) return "it has no key";
    if (token.issued.node.empty() || token.issued.node == enrol.node) return "";
    return fmt::format("the token is for {} alone", token.issued.node);
  }

  Token* find(const std::string& key) {
    const auto found = std::ranges::find_if(tokens, [&](const Token& token) {
      return token.issued.public_key == key;
    });
    return found == tokens.end() ? nullptr : &*found;
  }

  // Tokens that other processes have made; false: none.
  bool take_left() {
    if (options.enrolment.empty()) return false;
    const std::vector<IssuedToken> left = take_tokens(options.enrolment);
    for (const IssuedToken& token : left) tokens.push_back({token, "", 0});
    return !left.empty();
  }

  // What other processes have left in the folder. A revocation that cannot be
  // written down stays there, so that its process learns of it.
  void look_into_folder() try {
    watch.drain();
    const std::lock_guard lock(mutex);
    if (take_left()) publish();
    take_revocations(options.enrolment,
                     [this](const std::string& node) { revoke(node); });
  } catch (const Error& e) {
    const std::lock_guard lock(mutex);
    notice_locked(fmt::format("a machine is not revoked: {}", e.what()));
  }

  void revoke(const std::string& node) {
    std::erase_if(tokens, [&node](const Token& token) {
      return token.used_by.empty() &&
             (node.empty() || token.issued.node == node);
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
    std::vector<IssuedToken> usable;
    for (const Token& token : tokens) {
      if (spent(token).empty()) usable.push_back(token.issued);
    }
    try {
      publish_tokens(options.enrolment, usable);
    } catch (const Error& e) {  // the tokens themselves are good
      notice_locked(fmt::format("tokens cannot be listed: {}", e.what()));
    }
  }

  void remember(const std::string& key, const std::string& node) {
    std::vector<AllowedKey> more = joined;
    more.push_back({key, node, utc(clock.wall_ms())});
    write_allowed_keys(options.allowed_file, more);
    joined = std::move(more);
  }

  void notice_locked(std::string text) {
    if (notices.size() < kMaxNotices) notices.push_back(std::move(text));
  }

  const EnrolmentOptions options;
  const Clock& clock;
  const std::shared_ptr<AllowList> allowed = std::make_shared<AllowList>();
  Wakeup wakeup;
  FolderWatch watch;
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
  Impl* impl = impl_.get();
  auto handler = std::make_shared<const EnrolmentHandler>(EnrolmentHandler{
      [impl](const std::string& key) { return impl->admits(key); },
      [impl](const std::string& key, const std::string& message) {
        return impl->answer(key, message);
      }});
  return {impl->options.keys, impl->allowed, nullptr, std::move(handler)};
}

std::string EnrolmentServer::make_token(Duration lifetime) {
  const CurveKeys pair = generate_curve_keys();
  const std::lock_guard lock(impl_->mutex);
  impl_->tokens.push_back(
      {{pair.public_key, expiry(impl_->clock, lifetime), ""}, "", 0});
  impl_->publish();
  return JoinToken{impl_->options.keys.public_key, pair.secret_key}.text();
}

void EnrolmentServer::open_enrolment(const std::string& endpoint) {
  dtune::open_enrolment(impl_->options.enrolment,
                        {endpoint, impl_->options.keys.public_key});
  impl_->watch.add(impl_->options.enrolment);
  const std::lock_guard lock(impl_->mutex);
  impl_->opened = true;
  impl_->publish();
}

std::string make_token_beside(const std::filesystem::path& folder,
                              const EnrolmentPoint& enrolment,
                              const std::string& node, Duration lifetime,
                              const Clock& clock) {
  const CurveKeys pair = generate_curve_keys();
  leave_token(folder, {pair.public_key, expiry(clock, lifetime), node});
  return JoinToken{enrolment.server_key, pair.secret_key}.text();
}

std::vector<std::string> EnrolmentServer::take_notices() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->notices, {});
}

}  // namespace dtune
