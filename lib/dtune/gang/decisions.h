// What a gang's controller has decided, until the registry fetches it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dtune/gang/messages.h"
#include "dtune/gang/server.h"

namespace dtune::gang {

// For the trace.
struct GangMark {
  std::string name;
  std::map<std::string, double> counters;  // empty: an instant
};

// Orders to members, events for the owner of the gangs, marks for the trace.
// Not thread-safe.
class Decisions {
 public:
  struct Outgoing {
    int member = 0;
    Order order;
  };

  explicit Decisions(std::string gang) : gang_(std::move(gang)) {}

  void send(int member, Order order) {
    orders_.push_back({member, std::move(order)});
  }
  void event(GangEvent::Kind kind, int member, std::string text) {
    events_.push_back({gang_, kind, member, std::move(text)});
  }
  void mark(std::string name, std::map<std::string, double> counters = {}) {
    marks_.push_back({std::move(name), std::move(counters)});
  }

  std::vector<Outgoing> take_orders() { return std::exchange(orders_, {}); }
  std::vector<GangEvent> take_events() { return std::exchange(events_, {}); }
  std::vector<GangMark> take_marks() { return std::exchange(marks_, {}); }

 private:
  std::string gang_;
  std::vector<Outgoing> orders_;
  std::vector<GangEvent> events_;
  std::vector<GangMark> marks_;
};

}  // namespace dtune::gang
