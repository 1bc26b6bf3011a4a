// Time, passed in: nothing in dtune reads a clock that a test cannot set.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace dtune {

using Duration = std::chrono::nanoseconds;
// Time since an arbitrary point; never goes back.
using MonoTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonoTime now() const = 0;
  // Milliseconds since 1970-01-01 UTC; for records that people read.
  virtual int64_t wall_ms() const = 0;
};

// The machine's clocks; stateless, lives for ever.
const Clock& system_clock();

// A clock that is set by hand.
class ManualClock final : public Clock {
 public:
  MonoTime now() const override { return MonoTime(Duration(passed_)); }
  int64_t wall_ms() const override {
    return 1'700'000'000'000 + passed_ / 1'000'000;
  }
  void advance(Duration by) { passed_ += by.count(); }

 private:
  std::atomic<int64_t> passed_ = 0;  // ns
};

inline double to_seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
// Beyond 291 years: Duration::max() or min(); NaN: zero.
Duration from_seconds(double seconds);

// "45s", "3m12s", "2h05m", "-3m12s": two units, rounded towards zero.
std::string format_duration(Duration d);

// "10m", "90s", "1h30m", "2d", "1.5h", "500ms" or a plain number of seconds; at
// most 100 years. Throws Error(config) that names what was read and the
// accepted forms.
Duration parse_duration(const std::string& text);

}  // namespace dtune
