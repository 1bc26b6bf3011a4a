#include "dtune/cluster/allowed_keys.h"

#include <sstream>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/comm/keys.h"

namespace dtune {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;

}  // namespace

std::vector<AllowedKey> read_allowed_keys(const std::filesystem::path& file) {
  std::vector<AllowedKey> keys;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return keys;
  check_private(file);
  std::istringstream lines(read_file(file, kMaxFileBytes));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("# ")) continue;
    AllowedKey one;
    std::istringstream words(line);
    words >> one.key >> one.node >> std::ws;
    std::getline(words, one.since);
    if (!is_curve_key(one.key)) {
      throw Error(ErrorKind::config,
                  fmt::format("{}: '{}' is not a public key (remove the line)",
                              file.string(), one.key));
    }
    keys.push_back(std::move(one));
  }
  return keys;
}

void write_allowed_keys(const std::filesystem::path& file,
                        const std::vector<AllowedKey>& keys) {
  std::string text;
  for (const AllowedKey& one : keys) {
    text += fmt::format("{} {} {}\n", one.key, one.node, one.since);
  }
  write_private_file(file, text, true);
}

}  // namespace dtune
