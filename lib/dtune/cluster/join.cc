// The agent's side of joining.
#include "dtune/cluster/join.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/cluster/child_process.h"
#include "dtune/cluster/log.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"
#include "dtune/comm/monitor.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kTokenKind = "dtune2";
// A coordinator that is being restarted breaks a handshake or two.
constexpr int kMaxJoinMismatches = 5;

[[noreturn]] void no_token(const std::string& from) {
  throw Error(
      ErrorKind::config,
      fmt::format("{} not a join token (a line that begins with 'dtune2-'; "
                  "'dtune token STUDY' prints one where the study runs)",
                  from.empty() ? "this is" : from + ": is"));
}

// The pair is this machine's for one coordinator's key, whatever its address.
fs::path key_file(const fs::path& state, const std::string& server_key) {
  return state / "keys" / (hex_of_key(server_key).substr(0, 16) + ".key");
}

fs::path coordinator_file(const fs::path& state, const TcpEndpoint& tcp) {
  std::string name = fmt::format("{}_{}.pub", tcp.host, tcp.port);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ':'; },
      '_');
  return state / "coordinators" / name;
}

// The token that let this machine in.
fs::path token_file(const fs::path& state, const std::string& server_key) {
  return key_file(state, server_key).replace_extension(".token");
}

// One conversation with the enrolment server.
class Enrolment {
 public:
  Enrolment(const std::string& endpoint, const CurveClient& client)
      : endpoint_(endpoint),
        socket_(context_, Socket::Kind::dealer,
                SocketOptions{
                    .max_message_bytes = 4096, .queue = 16, .client = client}),
        monitor_(context_, socket_) {
    socket_.connect(endpoint);
  }

  // False where the token is not good (any more).
  bool run(const control::Enrol& enrol, Duration patience,
           const std::atomic<int>& stop) {
    const MonoTime end = system_clock().now() + patience;
    bool sent = false;
    while (system_clock().now() < end) {
      if (stop != 0) throw Error(ErrorKind::interrupted, "stopped");
      sent = sent || socket_.send(Frames{encode(enrol)});
      asked_ = asked_ || sent;
      PollSet polls;
      polls.add(socket_);
      polls.wait(milliseconds(50));
      for (const ConnectionEvent event : monitor_.take()) {
        // It may be used up by this agent: the answer is lost then.
        if (event == ConnectionEvent::denied) return asked_;
        note(event);
        if (event == ConnectionEvent::broken) sent = false;  // say it again
      }
      const auto frames = socket_.receive();
      if (frames && is_welcome(frames->front())) return true;
    }
    throw Error(ErrorKind::temporary,
                fmt::format("{}: no coordinator let this agent join within {}: "
                            "{}",
                            endpoint_, format_duration(patience), last_));
  }

 private:
  void note(ConnectionEvent event) {
    const std::string before = last_;
    weigh(event);
    if (last_ != before) log_warning("{}: {}; trying on", endpoint_, last_);
  }

  void weigh(ConnectionEvent event) {
    if (event == ConnectionEvent::unreachable) {
      last_ =
          "there is no answer at this address (is the coordinator running, and "
          "is the port open to this machine?)";
    } else if (event == ConnectionEvent::broken) {
      last_ = "the connection broke";
    } else if (event == ConnectionEvent::mismatched &&
               ++mismatches_ >= kMaxJoinMismatches) {
      throw Error(ErrorKind::config,
                  fmt::format("{}: what listens there is not the "
                              "coordinator that made the token (ask for a "
                              "fresh one: dtune token STUDY; has its key been "
                              "replaced?)",
                              endpoint_));
    }
  }

  bool is_welcome(const std::string& frame) const {
    const control::Message message = decode(frame);
    if (const auto* bye = std::get_if<control::Bye>(&message)) {
      throw Error(
          ErrorKind::config,
          fmt::format("{}: the coordinator refuses: {}", endpoint_, bye->why));
    }
    return std::holds_alternative<control::Enrolled>(message);
  }

  const std::string endpoint_;
  SocketContext context_;
  Socket socket_;
  ConnectionMonitor monitor_;
  int mismatches_ = 0;
  bool asked_ = false;
  std::string last_ = "there is no answer";
};

CurveClient known_client(const JoinOptions& options, const TcpEndpoint& tcp) {
  const fs::path file = coordinator_file(options.state, tcp);
  std::error_code error;
  if (!fs::exists(file, error)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: this machine has not joined there before "
                            "(give it a token: --token-file FILE, or - for "
                            "stdin; 'dtune token STUDY' prints one where the "
                            "study runs)",
                            options.endpoint));
  }
  const std::string server_key = read_public_key(file);
  return {server_key, read_secret_key(key_file(options.state, server_key))};
}

bool has_joined(const JoinOptions& options, const TcpEndpoint& tcp,
                const std::string& server_key) {
  const fs::path file = coordinator_file(options.state, tcp);
  std::error_code error;
  return fs::exists(file, error) && read_public_key(file) == server_key;
}

bool has_joined_with(const JoinOptions& options, const TcpEndpoint& tcp,
                     const JoinToken& token) {
  const fs::path file = token_file(options.state, token.server_key);
  std::error_code error;
  return has_joined(options, tcp, token.server_key) &&
         fs::exists(file, error) &&
         read_public_key(file) == public_key_of(token.secret_key);
}

}  // namespace

std::string JoinToken::text() const {
  return fmt::format("{}-{}-{}", kTokenKind, hex_of_key(server_key),
                     hex_of_key(secret_key));
}

JoinToken parse_join_token(const std::string& text, const std::string& from) {
  const std::string_view line = trim(text, " \t\r\n");
  const std::string begins = std::string(kTokenKind) + '-';
  const size_t dash = line.find('-', begins.size());
  if (!line.starts_with(begins) || dash == std::string::npos) no_token(from);
  try {
    return {key_of_hex(line.substr(begins.size(), dash - begins.size())),
            key_of_hex(line.substr(dash + 1))};
  } catch (const Error&) {
    no_token(from);
  }
}

CurveClient join_cluster(const JoinOptions& options,
                         const std::atomic<int>& stop) {
  const auto tcp = parse_tcp(options.endpoint);
  if (!tcp) {
    throw Error(
        ErrorKind::config,
        fmt::format("{}: agents join over tcp://host:port", options.endpoint));
  }
  if (options.token.empty()) return known_client(options, *tcp);
  const JoinToken token = parse_join_token(options.token);
  // It is used: the coordinator would take this for another machine's try.
  if (has_joined_with(options, *tcp, token)) return known_client(options, *tcp);
  CurveClient client;
  client.server_key = token.server_key;
  client.keys =
      read_or_make_secret_key(key_file(options.state, token.server_key));
  const fs::path file = coordinator_file(options.state, *tcp);
  TcpEndpoint address = *tcp;
  address.host = resolve_host(tcp->host);
  const CurveClient guest{token.server_key,
                          {public_key_of(token.secret_key), token.secret_key}};
  const bool good =
      Enrolment(address.text(), guest)
          .run({client.keys.public_key,
                options.node.empty() ? host_name() : options.node},
               options.patience, stop);
  if (!good && !has_joined(options, *tcp, token.server_key)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: the coordinator does not accept this token: "
                            "it was used, has expired, was revoked or is of "
                            "an earlier run (each machine needs a fresh token: "
                            "dtune token STUDY, there)",
                            options.endpoint));
  }
  fs::create_directories(file.parent_path());
  write_public_key(file, token.server_key);
  if (good) {
    write_public_key(token_file(options.state, token.server_key),
                     guest.keys.public_key);
  }
  return client;
}

std::string agent_name(bool remote) {
  std::string process = process_name(getpid());
  if (!remote) return process;
  return fmt::format("{}/{}/{:08x}", host_name(), process,
                     std::random_device()());
}

std::string host_name() {
  std::string name(256, '\0');
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  name.resize(name.find('\0'));
  return name;
}

}  // namespace dtune
