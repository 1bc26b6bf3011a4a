// How another process of the same user gets a join token of a coordinator that
// runs (`dtune token`): through a folder of the study.
//
//   open          where machines join; there while the coordinator runs
//   <id>.token    a token that a process has made: its public key
//   <id>.revoke   what a process asks the coordinator to revoke
//   tokens        those that were not used: "<expires> <node>" each
//
// All files are private: a process that can write them as this user could also
// write down keys that are allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/clock.h"

namespace dtune {

struct EnrolmentPoint {
  std::string endpoint;    // of the coordinator
  std::string server_key;  // Z85
};

// Errors of writing as write_private_file.
void open_enrolment(const std::filesystem::path& folder,
                    const EnrolmentPoint& enrolment);
// Removes all that is there; throws nothing.
void close_enrolment(const std::filesystem::path& folder);
// Absent where it is not open. Throws Error(config) where its file is not
// private or says something else.
std::optional<EnrolmentPoint> find_enrolment(
    const std::filesystem::path& folder);

// A token, without its secret half.
struct IssuedToken {
  std::string public_key;  // Z85
  int64_t expires_ms = 0;
  std::string node;  // the machine that it is for; "": any
};

void leave_token(const std::filesystem::path& folder, const IssuedToken& token);
// What was left. Each file is removed before it counts, so it counts once,
// any side that dies; files of others, or that others can read, never count.
std::vector<IssuedToken> take_tokens(const std::filesystem::path& folder);

// Asks the coordinator to revoke all keys of a machine and the tokens for it
// ("": every token that was not used), and waits until that is done; false: it
// was not, in this time.
bool leave_revocation(const std::filesystem::path& folder,
                      const std::string& node, Duration patience);
// Calls `revoke` with the name of each machine, or "". Each request is removed
// once it is done, which is the answer to it.
void take_revocations(const std::filesystem::path& folder,
                      const std::function<void(const std::string&)>& revoke);

// What can still be used: when each expires, and for which node.
void publish_tokens(const std::filesystem::path& folder,
                    const std::vector<IssuedToken>& tokens);
std::vector<IssuedToken> published_tokens(const std::filesystem::path& folder);

}  // namespace dtune
