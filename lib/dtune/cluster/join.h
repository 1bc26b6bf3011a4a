// How agents of other machines come to be allowed.
//
// A token is one line, given by people to the machine that is to join:
//
//   dtune1-<port>-<the server's public key, hex>-<one-time secret, hex>
//
//   agent                                     coordinator (EnrolmentServer)
//     | CURVE handshake with the token's server key
//     | and a key pair of its own, to <port>: every
//     | client is let in, only `enrol` is read
//     |---- enrol {secret, node} ----------------->| is the secret known, not
//     |                                            | used and not expired? then
//     |                                            | the key of this connection
//     |<--- enrolled {study} or bye {why} ---------| is allowed and stored
//     | keeps its key pair and the server's key    |
//     |---- CURVE to the coordinator's own port -->| admitted by the allow-list
//
// The handshake proves to the agent that it speaks with the coordinator that
// made the token, and to the coordinator that the agent has the secret of the
// key that it asks to be allowed; the token's secret goes through that channel
// alone. What was recorded is of no use later: CURVE's session keys are fresh,
// and a secret counts once. The agent may repeat itself: a key that is allowed
// already is answered `enrolled` whatever its token.
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

// What a token says. `secret`: 16 random bytes in hex.
struct JoinToken {
  int port = 0;
  std::string server_key;  // Z85
  std::string secret;

  std::string text() const;
};

// Throws Error(config) where it is none; blanks around it do not matter.
JoinToken parse_join_token(const std::string& text);

inline constexpr Duration kTokenLifetime = std::chrono::hours(24);

// A token of the coordinator that runs beside this process and has opened
// `enrolment` in `folder`; good for one machine, which has to call itself
// `node` if that is not "". Throws as leave_secret.
std::string make_token_beside(const std::filesystem::path& folder,
                              const EnrolmentPoint& enrolment,
                              const std::string& node = "",
                              Duration lifetime = kTokenLifetime,
                              const Clock& clock = system_clock());

// The coordinator's own pair: `folder`/dtune.key, else the one of
// config_directory(). Throws Error(config) with the remedy where there is none.
CurveKeys load_cluster_keys(const std::filesystem::path& folder);

struct EnrolmentOptions {
  CurveKeys keys;                      // the server's
  std::filesystem::path allowed_file;  // keeps allowed keys; mode 0600
  std::string endpoint;                // where to enrol; port 0: any
  std::string study_id;
  // Where other processes of this user leave tokens (enrolment.h); "": nowhere.
  std::filesystem::path enrolment;
};

// The coordinator's enrolment server: gives out tokens, enrols agents on a
// thread of its own, remembers who is allowed. Thread-safe.
class EnrolmentServer {
 public:
  // Reads who is allowed; listens at once. Throws as Listener, and
  // Error(config) where the file cannot be used.
  explicit EnrolmentServer(EnrolmentOptions options,
                           const Clock& clock = system_clock());
  ~EnrolmentServer();
  EnrolmentServer(const EnrolmentServer&) = delete;
  EnrolmentServer& operator=(const EnrolmentServer&) = delete;

  // For the study's listeners; the list is shared with them.
  ListenSecurity security() const;
  std::string endpoint() const;
  // A line for --token-file or its stdin; good for one machine until then.
  std::string make_token(Duration lifetime = kTokenLifetime);
  // Lets processes beside this one make tokens, too, until this object ends;
  // `endpoint` is the coordinator's. REQUIRES: EnrolmentOptions::enrolment.
  void open_enrolment(const std::string& endpoint);
  // Who came and who was turned away, and why, since the last call.
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

// Enrols where there is a token; returns what to connect with from then on.
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
