#include "cluster/virtual_cluster.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include <poll.h>

namespace dtune {
namespace {

// Messages come at multiples of this, so that a turn of the coordinator hears
// several.
constexpr double kLatency = 0.01;

double processor_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

bool is_notified(const Wakeup& wakeup) {
  pollfd entry{wakeup.descriptor(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

VirtualCluster::VirtualCluster(VirtualClusterOptions options,
                               std::string study_id, std::string metric,
                               Objective objective)
    : options_(std::move(options)),
      study_id_(std::move(study_id)),
      metric_(std::move(metric)),
      objective_(std::move(objective)),
      rng_(options_.seed),
      elastic_({.name = "virtual",
                .most = options_.nodes,
                .most_pending = options_.pending},
               clock_) {
  open_nodes();
}

VirtualCluster::~VirtualCluster() = default;

double VirtualCluster::now() const {
  return to_seconds(clock_.now().time_since_epoch());
}

void VirtualCluster::at(double when, std::function<void()> act) {
  const double tick = std::ceil(when / kLatency) * kLatency;
  events_.push({std::max(tick, now()), ++numbers_, std::move(act)});
}

void VirtualCluster::advance_to(double when) {
  const double passed = when - now();
  if (passed > 0) clock_.advance(from_seconds(passed));
}

// What the coordinator has computed since the last poll.
void VirtualCluster::account() {
  if (processor_ < 0) return;
  const double spent = processor_seconds() - processor_;
  figures_.processor_seconds += spent;
  if (options_.charged) clock_.advance(from_seconds(spent));
}

void VirtualCluster::run_due() {
  while (!events_.empty() && events_.top().when <= now() + 1e-9) {
    const auto act = events_.top().act;
    events_.pop();
    act();
  }
}

void VirtualCluster::poll(Duration patience, Wakeup& wakeup,
                          const std::function<void(Frames)>& handle) {
  account();
  if (is_notified(wakeup)) {
    wakeup.drain();
  } else {
    const double until = now() + to_seconds(patience);
    advance_to(events_.empty() ? until : std::min(until, events_.top().when));
  }
  run_due();
  processor_ = processor_seconds();
  for (Frames& frames : std::exchange(inbox_, {})) {
    const auto second = static_cast<int64_t>(now());
    if (std::exchange(second_, second) != second) in_second_ = 0;
    figures_.received += std::ssize(frames) - 1;
    in_second_ += std::ssize(frames) - 1;
    figures_.busiest_second = std::max(figures_.busiest_second, in_second_);
    handle(std::move(frames));
  }
}

void VirtualCluster::say(const std::string& job, control::Message message) {
  inbox_.push_back({job, encode(std::move(message))});
}

bool VirtualCluster::send(Frames frames) {
  const std::string name = frames.front();
  if (!is_here(name)) return false;
  for (size_t i = 1; i < frames.size(); ++i) {
    ++figures_.sent;
    obey(name, decode(frames[i]));
    if (!is_here(name)) break;
  }
  return true;
}

}  // namespace dtune
