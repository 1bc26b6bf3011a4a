#include "dtune/base/clock.h"

#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

class SystemClock final : public Clock {
 public:
  MonoTime now() const override { return std::chrono::steady_clock::now(); }
  int64_t wall_ms() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

[[noreturn]] void bad_duration(const std::string& text) {
  throw Error(ErrorKind::config,
              fmt::format("'{}' is no duration (write 90s, 10m, 1h30m, 2d or "
                          "a number of seconds)",
                          text));
}

// Seconds of a unit's letter; 0 for none of ours.
double unit_seconds(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 86400;
    default:
      return 0;
  }
}

}  // namespace

const Clock& system_clock() {
  static const SystemClock clock;
  return clock;
}

void ManualClock::advance(Duration by) {
  now_ += by;
  wall_ms_ += std::chrono::duration_cast<std::chrono::milliseconds>(by).count();
}

Duration from_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(seconds));
}

std::string format_duration(Duration d) {
  const int64_t s = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

Duration parse_duration(const std::string& text) {
  double total = 0;
  const char* at = text.c_str();
  if (*at == '\0') bad_duration(text);
  while (*at != '\0') {
    if (std::isdigit(static_cast<unsigned char>(*at)) == 0 && *at != '.') {
      bad_duration(text);
    }
    char* end = nullptr;
    const double number = std::strtod(at, &end);
    if (end == at || !std::isfinite(number)) bad_duration(text);
    const bool bare = *end == '\0' && at == text.c_str();
    const double unit = bare ? 1 : unit_seconds(*end);
    if (unit == 0) bad_duration(text);
    total += number * unit;
    at = bare ? end : end + 1;
  }
  constexpr double kHundredYears = 3.2e9;
  if (total > kHundredYears) bad_duration(text);
  return from_seconds(total);
}

}  // namespace dtune
