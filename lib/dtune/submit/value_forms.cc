#include "dtune/submit/value_forms.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/base/text.h"

namespace dtune {

TemplateValues common_values(const SubmitJob& job) {
  TemplateValues values;
  values.raw = job.raw;
  values.texts = {{"name", job.name},
                  {"program", job.program},
                  {"recipe_path", job.recipe.string()},
                  {"folder", job.folder.string()},
                  {"log", (job.folder / (job.name + ".log")).string()}};
  std::vector<std::string>& command = values.lists["command"];
  command = {job.program, "run", job.recipe.string(), "--db",
             job.database.string()};
  for (const std::string& one : job.set) {
    command.insert(command.end(), {"--set", one});
  }
  return values;
}

std::string plain_value(const EngineAddress& to, const std::string& key,
                        const std::string& value) {
  if (is_plain(value, "-._:/,=@+*&|[]()")) return value;
  throw Error(
      ErrorKind::config,
      fmt::format("'{}': {} is '{}' (letters, digits and -._:/,=@+*&|[] "
                  "are possible; more by --raw)",
                  to.text, key, value));
}

std::string needed_value(const EngineAddress& to, const std::string& key,
                         const std::string& example) {
  std::string value = to.value(key);
  if (!value.empty()) return value;
  throw Error(ErrorKind::config, fmt::format("'{}': {} is missing ({}={})",
                                             to.text, key, key, example));
}

int64_t whole_seconds(const EngineAddress& to, const std::string& duration,
                      int64_t otherwise) {
  if (duration.empty()) return otherwise;
  try {
    const double seconds = to_seconds(parse_duration(duration));
    return std::max<int64_t>(static_cast<int64_t>(seconds), 1);
  } catch (const Error& error) {
    throw Error(ErrorKind::config,
                fmt::format("'{}': {}", to.text, error.what()));
  }
}

std::string hours_minutes_seconds(const EngineAddress& to,
                                  const std::string& duration) {
  const int64_t seconds = whole_seconds(to, duration, 0);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60,
                     seconds % 60);
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view kSigns =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group <<= 8;
      if (i + k < bytes.size())
        group |= static_cast<unsigned char>(bytes[i + k]);
    }
    for (size_t k = 0; k < 4; ++k) {
      const uint32_t sign = group >> (18 - 6 * k) & 63;
      out.push_back(i + k > bytes.size() ? '=' : kSigns[sign]);
    }
  }
  return out;
}

}  // namespace dtune
