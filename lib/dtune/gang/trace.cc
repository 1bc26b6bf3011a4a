#include "dtune/gang/trace.h"

#include <utility>

namespace dtune {
namespace {

int64_t nanoseconds(MonoTime t) { return t.time_since_epoch().count(); }

}  // namespace

void TraceRecorder::enable(bool on) {
  const std::lock_guard lock(mutex_);
  on_ = on;
  if (!on) {
    events_.clear();
    next_ = 0;
  }
}

bool TraceRecorder::enabled() const {
  const std::lock_guard lock(mutex_);
  return on_;
}

void TraceRecorder::span(const char* lane, std::string name, MonoTime begin,
                         MonoTime end) {
  add({TraceEvent::Kind::span, lane, std::move(name), nanoseconds(begin),
       (end - begin).count(), 0});
}

void TraceRecorder::counter(std::string name, double value) {
  add({TraceEvent::Kind::counter, "", std::move(name),
       nanoseconds(system_clock().now()), 0, value});
}

void TraceRecorder::mark(const char* lane, std::string name) {
  add({TraceEvent::Kind::mark, lane, std::move(name),
       nanoseconds(system_clock().now()), 0, 0});
}

void TraceRecorder::add(TraceEvent event) {
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  if (events_.size() < kMostEvents) {
    events_.push_back(std::move(event));
    return;
  }
  events_[next_] = std::move(event);
  next_ = (next_ + 1) % kMostEvents;
}

std::vector<TraceEvent> TraceRecorder::take() {
  const std::lock_guard lock(mutex_);
  std::vector<TraceEvent> all(
      std::make_move_iterator(events_.begin() +
                              static_cast<std::ptrdiff_t>(next_)),
      std::make_move_iterator(events_.end()));
  all.insert(all.end(), std::make_move_iterator(events_.begin()),
             std::make_move_iterator(events_.begin() +
                                     static_cast<std::ptrdiff_t>(next_)));
  events_.clear();
  next_ = 0;
  return all;
}

}  // namespace dtune
