#include "dtune/cluster/enrolment.h"

#include <chrono>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/capability.h"
#include "dtune/comm/keys.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOpen = "open";
constexpr const char* kToken = ".token";
constexpr const char* kRevoke = ".revoke";
constexpr const char* kTokens = "tokens";
constexpr uint64_t kMaxBytes = 4096;
constexpr uint64_t kMaxListBytes = uint64_t{1} << 20;

// A file, no link, of this user, private to it.
bool is_own(const fs::path& file) {
  struct stat info {};
  return lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_uid == geteuid() && (info.st_mode & 077) == 0;
}

std::optional<IssuedToken> read_token(const fs::path& file) try {
  IssuedToken token;
  std::istringstream words(read_file(file, kMaxBytes));
  if (!(words >> token.public_key >> token.expires_ms)) return std::nullopt;
  if (!is_curve_key(token.public_key)) return std::nullopt;
  words >> token.node;
  return token;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

void open_enrolment(const fs::path& folder, const EnrolmentPoint& enrolment) {
  write_private_file(
      folder / kOpen,
      fmt::format("{} {}\n", enrolment.endpoint, enrolment.server_key), true);
}

void close_enrolment(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
}

std::optional<EnrolmentPoint> find_enrolment(const fs::path& folder) {
  const fs::path file = folder / kOpen;
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  EnrolmentPoint enrolment;
  if (is_own(file)) {
    std::istringstream words(read_file(file, kMaxBytes));
    words >> enrolment.endpoint >> enrolment.server_key;
    if (words && is_curve_key(enrolment.server_key)) return enrolment;
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: was not written by a coordinator of this user "
                          "(ask as the user who runs the study)",
                          file.string()));
}

void leave_token(const fs::path& folder, const IssuedToken& token) {
  write_private_file(
      folder / (new_capability() + kToken),
      fmt::format("{} {} {}\n", token.public_key, token.expires_ms, token.node),
      true);
}

std::vector<IssuedToken> take_tokens(const fs::path& folder) {
  std::vector<IssuedToken> taken;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != kToken || !is_own(it->path())) continue;
    const auto token = read_token(it->path());
    std::error_code kept;
    if (!fs::remove(it->path(), kept) || !token) continue;
    taken.push_back(*token);
  }
  return taken;
}

bool leave_revocation(const fs::path& folder, const std::string& node,
                      Duration patience) {
  const fs::path file = folder / (new_capability() + kRevoke);
  write_private_file(file, node + "\n", true);
  constexpr Duration kTurn = std::chrono::milliseconds(10);
  std::error_code error;
  for (Duration left = patience; left > Duration(0); left -= kTurn) {
    if (!fs::exists(file, error)) return true;
    std::this_thread::sleep_for(kTurn);
  }
  fs::remove(file, error);
  return false;
}

void take_revocations(const fs::path& folder,
                      const std::function<void(const std::string&)>& revoke) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != kRevoke || !is_own(it->path())) continue;
    std::string node = read_file(it->path(), kMaxBytes);
    node.erase(node.find_last_not_of('\n') + 1);
    revoke(node);
    std::error_code ignored;
    fs::remove(it->path(), ignored);  // only now: its end is the answer
  }
}

void publish_tokens(const fs::path& folder,
                    const std::vector<IssuedToken>& tokens) {
  std::string text;
  for (const IssuedToken& token : tokens) {
    text += fmt::format("{} {}\n", token.expires_ms, token.node);
  }
  write_private_file(folder / kTokens, text, true);
}

std::vector<IssuedToken> published_tokens(const fs::path& folder) {
  std::vector<IssuedToken> tokens;
  const fs::path file = folder / kTokens;
  if (!is_own(file)) return tokens;
  std::istringstream lines(read_file(file, kMaxListBytes));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    IssuedToken token;
    if (!(words >> token.expires_ms)) continue;
    words >> token.node;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace dtune
