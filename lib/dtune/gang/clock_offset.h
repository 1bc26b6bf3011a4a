// How far another machine's clock is from this one's.
#pragma once

#include <cstdint>

namespace dtune::gang {

// By the exchange with the shortest way that was seen lately (the clock filter
// of NTP, RFC 5905 section 10, reduced to its choice).
class ClockOffset {
 public:
  // Sent and received by this clock, answered by the other: nanoseconds.
  void exchange(int64_t sent, int64_t answered, int64_t received) {
    const int64_t trip = received - sent;
    if (trip < 0) return;
    if (exchanges_++ % kForget != 0 && trip > shortest_) return;
    shortest_ = trip;
    offset_ = answered - (sent + trip / 2);
  }
  // To add to this clock's time for the other's.
  int64_t nanoseconds() const { return offset_; }

 private:
  static constexpr int64_t kForget = 300;  // exchanges: clocks drift
  int64_t exchanges_ = 0;
  int64_t shortest_ = 0;
  int64_t offset_ = 0;
};

}  // namespace dtune::gang
