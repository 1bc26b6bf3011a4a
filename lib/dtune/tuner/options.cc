#include "dtune/tuner/options.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"

namespace dtune {
namespace {

std::vector<std::string> to_strings(std::initializer_list<const char*> words) {
  return {words.begin(), words.end()};
}

}  // namespace

std::optional<int> OptionReader::integer(const std::string& name, int low,
                                         int high) const {
  const auto found = options_.find(name);
  if (found == options_.end()) return std::nullopt;
  const int64_t* value = std::get_if<int64_t>(&found->second);
  if (value == nullptr || *value < low || *value > high) {
    throw Error(ErrorKind::config,
                fmt::format("{}.{}: '{}' does not fit (write a whole number "
                            "from {} to {})",
                            where_, name, to_string(found->second), low, high));
  }
  return static_cast<int>(*value);
}

std::optional<double> OptionReader::number(const std::string& name, double low,
                                           double high) const {
  const auto found = options_.find(name);
  if (found == options_.end()) return std::nullopt;
  const bool boolean = std::holds_alternative<bool>(found->second);
  const auto value = boolean ? std::nullopt : as_number(found->second);
  if (!value || !(*value >= low && *value <= high)) {
    throw Error(ErrorKind::config,
                fmt::format("{}.{}: '{}' does not fit (write a number from {} "
                            "to {})",
                            where_, name, to_string(found->second), low, high));
  }
  return value;
}

std::string OptionReader::word(const std::string& name,
                               std::initializer_list<const char*> words) const {
  const auto found = options_.find(name);
  if (found == options_.end()) return *words.begin();
  const std::vector<std::string> known = to_strings(words);
  std::string given = to_string(found->second);
  if (std::find(known.begin(), known.end(), given) == known.end()) {
    throw Error(
        ErrorKind::config,
        fmt::format("{}.{}: unknown word '{}'{} (one of {})", where_, name,
                    given, did_you_mean(given, known), fmt::join(known, ", ")));
  }
  return given;
}

}  // namespace dtune
