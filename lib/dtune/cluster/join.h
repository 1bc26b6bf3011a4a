// How agents of other machines come to be allowed.
//
// A token is one line, given by people to the machine that is to join:
//
//   dtune2-<the server's public key, hex>-<the token's secret key, hex>
//
// The token is a key pair, of which the coordinator keeps the public half. It
// is admitted at the coordinator's port until the token was used, has expired
// or is revoked, and may say `enrol` alone:
//
//   agent                                     coordinator (EnrolmentServer)
//     | CURVE handshake with the token's key       |
//     |---- enrol {own public key, node} --------->| for this node? then the key
//     |                                            | is allowed and stored, and
//     |<--- enrolled {study} or bye {why} ---------| the token is used up
//     |---- CURVE handshake with its own key ----->| admitted by the allow-list
//
// The handshake proves to the agent that it is connected to the coordinator
// that made the token, and to the coordinator that the agent has the token; no
// secret travels. What was recorded is of no use later: CURVE's session keys
// are fresh, and a token counts once. A key that is named without its secret
// half opens nothing. An agent whose token was used up tries its own key.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/cluster/enrolment.h"
#include "dtune/comm/listener.h"

namespace dtune {

// What a token says. Keys in Z85.
struct JoinToken {
  std::string server_key;
  std::string secret_key;

  std::string text() const;
};

// Throws Error(config) where it is not a token, which names where it is `from`;
// blanks around it do not matter.
JoinToken parse_join_token(const std::string& text,
                           const std::string& from = "");

inline constexpr Duration kTokenLifetime = std::chrono::hours(24);

// A token of the coordinator that runs beside this process and has opened
// `enrolment` in `folder`; good for one machine, which has to call itself
// `node` if that is not "". Throws as leave_token.
std::string make_token_beside(const std::filesystem::path& folder,
                              const EnrolmentPoint& enrolment,
                              const std::string& node = "",
                              Duration lifetime = kTokenLifetime,
                              const Clock& clock = system_clock());

// The coordinator's own pair: `folder`/dtune.key, else the one of
// config_directory(). Throws Error(config) with the remedy where there is none.
CurveKeys load_cluster_keys(const std::filesystem::path& folder);

struct EnrolmentOptions {
  CurveKeys keys;                      // the coordinator's
  std::filesystem::path allowed_file;  // keeps allowed keys; mode 0600
  std::string study_id;
  // Where other processes of this user leave tokens (enrolment.h); "": nowhere.
  std::filesystem::path enrolment;
};

// Which agents may join: gives out tokens, enrols agents that bring them to a
// listener of security(), keeps the allowed keys. Thread-safe.
class EnrolmentServer {
 public:
  // Reads the allowed keys. Throws Error(config) where the file cannot be used.
  explicit EnrolmentServer(EnrolmentOptions options,
                           const Clock& clock = system_clock());
  ~EnrolmentServer();
  EnrolmentServer(const EnrolmentServer&) = delete;
  EnrolmentServer& operator=(const EnrolmentServer&) = delete;

  // For the coordinator's listener, which this has to outlive; the list is
  // shared with it.
  ListenSecurity security() const;
  // A line for --token-file or its stdin; good for one machine until then.
  std::string make_token(Duration lifetime = kTokenLifetime);
  // Lets processes beside this one make tokens, too, until this object ends;
  // `endpoint` is the coordinator's. REQUIRES: EnrolmentOptions::enrolment.
  void open_enrolment(const std::string& endpoint);
  // Which machines came or were refused, and why, since the last call.
  std::vector<std::string> take_notices();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct JoinOptions {
  std::string endpoint;         // of the coordinator, tcp://host:port
  std::string token;            // "": it has joined before
  std::string node;             // shown to people
  std::filesystem::path state;  // folder for its keys (state_directory())
  Duration patience = std::chrono::minutes(2);  // to reach the coordinator
};

// Enrols where there is a token that is good, or else was used by this machine;
// returns what to connect with from then on.
// Keys are kept in `state`, one pair for each coordinator's key, so an agent
// joins again by itself: after its own restart and after the coordinator's.
// Blocks. Throws Error(config) with the coordinator's words where it refuses,
// or where there is neither token nor key; Error(temporary) where no server
// answers within `patience`; Error(interrupted) when `stop` is set.
CurveClient join_cluster(const JoinOptions& options,
                         const std::atomic<int>& stop);

// Of this process, unique among all agents of a study: process_name() on the
// coordinator's machine; others have the same process ids and get more.
std::string agent_name(bool remote);

// The host's name, as people know it.
std::string host_name();

}  // namespace dtune
