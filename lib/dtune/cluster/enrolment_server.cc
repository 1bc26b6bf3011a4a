// The coordinator's side of joining.
#include <ctime>
#include <deque>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
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
constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;

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

JoinSecret expiring(const Clock& clock, Duration lifetime) {
  return make_join_secret(clock.wall_ms() + lifetime.count() / 1'000'000);
}

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

  // Lines: key, node, time.
  void load() {
    std::error_code error;
    if (!std::filesystem::exists(options.allowed_file, error)) return;
    check_private(options.allowed_file);
    std::istringstream lines(read_file(options.allowed_file, kMaxFileBytes));
    for (std::string line; std::getline(lines, line);) {
      const std::string key = line.substr(0, line.find(' '));
      if (line.empty() || line.starts_with("# ")) continue;
      if (!is_curve_key(key)) {
        throw Error(
            ErrorKind::config,
            fmt::format("{}: '{}' is not a public key (remove the line)",
                        options.allowed_file.string(), key));
      }
      file_text += line + "\n";
      allowed->add(key);
    }
  }

  void serve() {
    while (true) {
      PollSet polls;
      polls.add(wakeup.descriptor());
      listener.add_to(polls);
      polls.wait(std::chrono::seconds(60));
      {
        const std::lock_guard lock(mutex);
        if (stopping) return;
      }
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

  void remember(const std::string& key, const std::string& node) {
    const std::string text =
        file_text + fmt::format("{} {} {}\n", key, node, utc(clock.wall_ms()));
    write_private_file(options.allowed_file, text, true);
    file_text = text;
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
  int port = 0;
  std::mutex mutex;  // guards what follows
  bool stopping = false;
  std::deque<Token> tokens;
  std::vector<std::string> notices;
  std::string file_text;
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
  const JoinSecret secret = expiring(impl_->clock, lifetime);
  const std::lock_guard lock(impl_->mutex);
  impl_->tokens.push_back({secret, "", 0});
  return JoinToken{impl_->port, impl_->options.keys.public_key, secret.text}
      .text();
}

void EnrolmentServer::open_enrolment(const std::string& endpoint) {
  dtune::open_enrolment(
      impl_->options.enrolment,
      {endpoint, impl_->port, impl_->options.keys.public_key});
}

std::string make_token_beside(const std::filesystem::path& folder,
                              const EnrolmentPoint& enrolment,
                              Duration lifetime, const Clock& clock) {
  const JoinSecret secret = expiring(clock, lifetime);
  leave_secret(folder, secret);
  return JoinToken{enrolment.port, enrolment.server_key, secret.text}.text();
}

std::vector<std::string> EnrolmentServer::take_notices() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->notices, {});
}

}  // namespace dtune
