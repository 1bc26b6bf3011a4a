#include "dtune/cluster/job_key.h"

#include <charconv>
#include <iostream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/comm/keys.h"

namespace dtune {
namespace {

constexpr const char* kServer = "dtune-job-server";
constexpr const char* kAgent = "dtune-job-agent";
constexpr const char* kEndpoint = "dtune-job-endpoint";
constexpr const char* kPort = "dtune-job-port";
constexpr const char* kNoSecret = "-";
constexpr uint64_t kMaxJobKeyBytes = 4096;

[[noreturn]] void no_job_key(const std::string& source) {
  throw Error(ErrorKind::config,
              fmt::format("{}: holds no job key (lines that begin with "
                          "'{}' and '{}'; 'dtune keygen --job' makes one)",
                          source, kServer, kAgent));
}

std::string secret_or_none(const std::string& key) {
  return key.empty() ? kNoSecret : key;
}

CurveKeys read_pair(std::istream& words, const std::string& source) {
  CurveKeys keys;
  words >> keys.public_key >> keys.secret_key;
  if (keys.secret_key == kNoSecret) keys.secret_key.clear();
  const bool sound = is_curve_key(keys.public_key) &&
                     (keys.secret_key.empty() || is_curve_key(keys.secret_key));
  if (!sound) no_job_key(source);
  return keys;
}

int read_port(std::istream& words, const std::string& source) {
  constexpr int kMaxPort = 65535;
  int port = -1;
  if (!(words >> port) || port < 0 || port > kMaxPort) no_job_key(source);
  return port;
}

}  // namespace

std::string JobKey::text() const {
  std::string out =
      fmt::format("{} {} {}\n{} {} {}\n", kServer, server.public_key,
                  secret_or_none(server.secret_key), kAgent, agents.public_key,
                  secret_or_none(agents.secret_key));
  if (!endpoint.empty()) out += fmt::format("{} {}\n", kEndpoint, endpoint);
  if (port > 0) out += fmt::format("{} {}\n", kPort, port);
  return out;
}

JobKey JobKey::for_agents() const {
  JobKey out = *this;
  out.server.secret_key.clear();
  return out;
}

JobKey make_job_key() {
  return {generate_curve_keys(), generate_curve_keys(), "", 0};
}

JobKey parse_job_key(const std::string& text, const std::string& source) {
  JobKey key;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == kServer) {
      key.server = read_pair(words, source);
    } else if (kind == kAgent) {
      key.agents = read_pair(words, source);
    } else if (kind == kEndpoint) {
      words >> key.endpoint;
    } else if (kind == kPort) {
      key.port = read_port(words, source);
    }
  }
  if (key.server.public_key.empty() || key.agents.secret_key.empty()) {
    no_job_key(source);
  }
  return key;
}

JobKey read_job_key(const std::string& file) {
  if (file == "-") {
    const std::string text(std::istreambuf_iterator<char>(std::cin), {});
    return parse_job_key(text, "stdin");
  }
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: there is no such job key (it lasts as long as "
                            "its run; 'dtune keygen --job' makes one)",
                            file));
  }
  check_private(file);
  return parse_job_key(read_file(file, kMaxJobKeyBytes), file);
}

void write_job_key(const std::filesystem::path& file, const JobKey& key) {
  write_private_file(file, key.text(), true);
}

}  // namespace dtune
