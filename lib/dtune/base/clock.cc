#include "dtune/base/clock.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "dtune/base/clock_override.h"
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

std::atomic<const Clock*> overriding = nullptr;  // NOLINT: of tests

[[noreturn]] void bad_duration(const std::string& text) {
  throw Error(
      ErrorKind::config,
      fmt::format("'{}' is not a duration (write 90s, 10m, 1h30m, 2d or "
                  "a number of seconds)",
                  text));
}

Duration checked(double seconds, const std::string& text) {
  constexpr double kHundredYears = 3.2e9;
  if (!(seconds <= kHundredYears)) bad_duration(text);
  return from_seconds(seconds);
}

struct Unit {
  std::string_view name;
  double seconds;
};

// The unit that a text begins with; null if none of ours. "ms" comes before
// "m".
const Unit* find_unit(std::string_view text) {
  static constexpr Unit kUnits[] = {
      {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  for (const Unit& unit : kUnits) {
    if (text.starts_with(unit.name)) return &unit;
  }
  return nullptr;
}

std::string format_seconds(int64_t s) {
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

}  // namespace

const Clock& system_clock() {
  static const SystemClock machine;
  const Clock* other = overriding.load(std::memory_order_acquire);
  return other != nullptr ? *other : machine;
}

ClockOverride::ClockOverride(const Clock& clock) {
  DTUNE_CHECK(overriding.exchange(&clock) == nullptr);
}

ClockOverride::~ClockOverride() { overriding = nullptr; }

Duration from_seconds(double seconds) {
  constexpr double kLongest = 9.2e9;  // 291 years: what 63 bits of ns hold
  if (std::isnan(seconds)) return Duration::zero();
  if (seconds >= kLongest) return Duration::max();
  if (seconds <= -kLongest) return Duration::min();
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(seconds));
}

// Less than a second is a time that a user has set: "500ms", not "0s".
std::string format_duration(Duration d) {
  const int64_t ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  if (ms != 0 && std::abs(ms) < 1000) return fmt::format("{}ms", ms);
  const int64_t s = ms / 1000;
  return s < 0 ? "-" + format_seconds(-s) : format_seconds(s);
}

Duration parse_duration(const std::string& text) {
  double total = 0;
  std::string_view rest = text;
  if (rest.empty()) bad_duration(text);
  while (!rest.empty()) {
    // from_chars also reads "-5", "inf" and "nan".
    if (std::isdigit(static_cast<unsigned char>(rest[0])) == 0 &&
        rest[0] != '.') {
      bad_duration(text);
    }
    double number = 0;
    const auto read =
        std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (read.ec != std::errc()) bad_duration(text);
    const bool first = rest.size() == text.size();
    rest.remove_prefix(static_cast<size_t>(read.ptr - rest.data()));
    if (first && rest.empty()) return checked(number, text);
    const Unit* unit = find_unit(rest);
    if (unit == nullptr) bad_duration(text);
    total += number * unit->seconds;
    rest.remove_prefix(unit->name.size());
  }
  return checked(total, text);
}

}  // namespace dtune
