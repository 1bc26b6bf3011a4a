// A gang in virtual time: its controller, members that compute, reduce and hand
// state on over a data plane that fails as real ones do, and faults drawn from
// a seed. Keeps book of what every member has applied, and says what is wrong.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dtune/base/random.h"
#include "dtune/gang/controller.h"

namespace dtune::simulated {

struct Faults {  // chances, each once a round and member
  double kill = 0;
  double suspend = 0;
  double spike = 0;
  double cut_off = 0;  // from the server
  double tear = 0;     // an operation fails for some of its members only
  double repeat = 0;   // a message comes twice
  double restart = 0;  // of a member that was killed
};

struct Setting {
  uint64_t seed = 1;
  int ranks = 4;
  int64_t samples = 997;
  int64_t batch = 32;
  int64_t step_samples = 500;
  int steps = 4;
  std::vector<double> speeds;  // samples a second; missing: 10,000
  StragglerPolicy stragglers = StragglerPolicy::automatic;
  Duration lease = std::chrono::seconds(15);
  double overlap = 0.5;  // of the ranks, those that are ready at their first
                         // gradient
  Faults faults;
};

class Gang {
 public:
  explicit Gang(const Setting& setting);

  // Until all steps are committed, the gang has closed, or no member is left.
  // Nothing may take longer than `limit`.
  void run(Duration limit);

  // To act at a time; may call the faults below.
  void at(Duration when, std::function<void()> act);
  void kill(int member, bool known);
  void suspend(int member, Duration how_long);
  void cut_off(int member, Duration how_long);
  void restart(int member);
  // Suspended when it is about to take part in its next reduction.
  void suspend_in_reduction(int member, Duration how_long) {
    process(member).suspended_in_reduction = how_long;
  }
  void set_speed(int member, double samples_per_second) {
    setting_.speeds.at(static_cast<size_t>(member)) = samples_per_second;
  }

  int committed = 0;  // steps
  bool closed = false;
  std::string problem;  // "": every invariant held
  std::vector<GangEvent> events;
  std::vector<gang::Go> gos;  // each once
  Duration elapsed() const { return now_ - MonoTime{}; }
  int count(GangEvent::Kind kind) const;
  int alive() const;
  int64_t size_of(int64_t round, int member) const {  // samples handed out
    return samples_of(handed_.at(round).spans.at(member));
  }
  gang::GangController& controller() { return controller_; }

 private:
  static constexpr Duration kMs = std::chrono::milliseconds(1);
  static constexpr Duration kLayer = 10 * kMs;

  using State = std::vector<int64_t>;  // rounds whose update was applied

  struct Process {
    int64_t life = 0;
    bool alive = false;
    bool known = false;  // by the controller
    MonoTime suspended_from{};
    MonoTime suspended_until{};
    Duration stopped_before{0};          // suspended, before that
    Duration suspended_in_reduction{0};  // will be
    MonoTime cut_until{};
    MonoTime last_arrival{};
    State state;
    int64_t told_updates = 0;
    int step = 0;
    bool in_step = false;
    bool over = false;  // all steps done, closed or evicted
    bool busy = false;
    int64_t computing = 0;  // numbers what it computes; 0: nothing
    bool backward = false;  // its forward pass is done
    bool broken = false;    // has said failed
    int incarnation = 0;
    std::vector<int> group;
    gang::Work work;
    std::vector<gang::Order> inbox;
    MonoTime went{};
  };

  // Of several members that only goes on when all have come.
  struct Meeting {
    std::vector<int> who;
    int incarnation = 0;
    std::map<int, std::function<void(bool)>> arrived;
    bool closed = false;  // by the death of one of them
  };

  Process& process(int m) { return processes_.at(static_cast<size_t>(m)); }
  const Process& process(int m) const {
    return processes_.at(static_cast<size_t>(m));
  }
  void fail(const std::string& what);
  // To stderr, where this seed is traced.
  template <class Text>
  void say(const Text& text) const {
    if (traced_) write(text());
  }
  void write(const std::string& text) const;
  void later(Duration in, std::function<void()> act);
  void as(int member, Duration in, std::function<void()> act);
  Duration stopped(int member) const;
  void compute(int member, Duration takes, std::function<void()> act);
  void look_for_orders(int member, int64_t computing);
  double chance() { return rng_.uniform(); }
  Duration jitter(double most_ms);

  void start(int member);
  gang::Begin begin_of(const Process& p) const;
  void begin(int member);
  void tell(int member, const std::function<void()>& message);
  void deliver(int member, int64_t life, Duration in,
               const std::function<void()>& message);
  void pump();
  void arrive(int member, int64_t life, gang::Order order);
  void next(int member);
  void take(int member, const gang::Regroup& order);
  void grouped(int member, const gang::Regroup& order);
  void take(int member, const gang::Go& order);
  void take(int member, const gang::CatchUp& order);
  void work(int member, const gang::Work& work);
  void say_ready(int member, const gang::Ready& ready);
  void reduced(int member, const gang::Go& order, bool good);
  void broke(int member);
  void serve(int member, std::vector<int> targets, int64_t round,
             Duration patience, std::function<void()> then);
  void receive(int member, int source, int64_t round, Duration patience,
               std::function<void()> then);
  void meet(const std::string& name, std::vector<int> who, int member,
            Duration patience, std::function<void(bool)> then);
  void settle(const std::string& name);
  void give_up(int member, const gang::GiveUp& order);
  void leave_meetings(int member);
  void draw_faults(int member);
  void check_commit();
  void check_equal(const std::vector<int>& who);
  void note_go(const gang::Go& order);

  Setting setting_;
  bool traced_;
  Rng rng_;
  MonoTime now_{};
  gang::GangController controller_;
  std::vector<Process> processes_;
  std::multimap<MonoTime, std::function<void()>> queue_;
  std::map<std::string, Meeting> meetings_;
  struct Handed {
    int64_t epoch = 0;
    std::map<int, std::vector<Span>> spans;
  };
  std::map<int64_t, Handed> handed_;                  // by round
  std::map<int64_t, std::vector<int>> participants_;  // by round
  int64_t computations_ = 0;
  State checkpoint_;
  int checkpoint_step_ = 0;
};

}  // namespace dtune::simulated
