// What a rank did when, for the trace of a run (Trace Event Format, which
// Perfetto and chrome://tracing read): pid = rank, tid = lane.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "dtune/base/clock.h"

namespace dtune {

struct TraceEvent {
  enum class Kind { span, counter, mark };
  Kind kind = Kind::span;
  const char* lane = "";  // "compute", "comm", "control"; lives forever
  std::string name;
  int64_t begin_ns = 0;  // of the process's monotonic clock
  int64_t duration_ns = 0;
  double value = 0;  // counter
};

// Keeps the newest kMostEvents events. Thread-safe; costs nothing while off.
class TraceRecorder {
 public:
  void enable(bool on);
  bool enabled() const;
  void span(const char* lane, std::string name, MonoTime begin, MonoTime end);
  void counter(std::string name, double value);
  void mark(const char* lane, std::string name);
  std::vector<TraceEvent> take();

  static constexpr size_t kMostEvents = 100'000;

 private:
  void add(TraceEvent event);

  mutable std::mutex mutex_;
  bool on_ = false;                 // guarded by mutex_
  std::vector<TraceEvent> events_;  // guarded by mutex_; a ring
  size_t next_ = 0;
};

}  // namespace dtune
