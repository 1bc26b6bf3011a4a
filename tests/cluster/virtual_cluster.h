// A cluster in virtual time: an engine with a queue, and agents whose trials
// take as long as their nodes' speeds make them. The coordinator beside it is
// the real one; it hears the agents through an AgentTransport that sets its
// clock ahead where there is nothing to do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/base/random.h"
#include "dtune/cluster/agent_transport.h"
#include "dtune/cluster/elastic_jobs.h"
#include "dtune/cluster/protocol.h"

namespace dtune {

// Times in seconds.
struct VirtualClusterOptions {
  uint64_t seed = 1;
  int nodes = 10;      // that the engine has; one slot each
  bool queue = true;   // false: all nodes are there from the beginning
  int pending = 2;     // jobs that may wait at the same time
  double wait = 120;   // of a job, in the mean of an exponential distribution
  double boot = 15;    // of a job, until its agent says hello
  double wall = 3600;  // a job is killed after this; 0: never
  double preempted = 7200;  // a job is, after this in the mean; 0: never
  double idle = 120;        // then an agent leaves
  double step = 60;         // of a node that is not slowed
  double start = 3;         // of a trial in a slot that had another
  // Of the nodes, one in `slow_nodes` has a quarter of the others' speed.
  int slow_nodes = 20;
  bool stragglers = true;  // false: all nodes have the same speed, always
  // Speeds of nodes, a value for each 10 s; empty: make_speed_trace.
  std::vector<std::vector<double>> traces;
  // The processor time of the coordinator passes in virtual time, too.
  bool charged = false;
};

struct VirtualClusterFigures {
  double node_seconds = 0;       // in which the engine had given a node away
  double useful_seconds = 0;     // in which a step was computed that counted
  double waited_seconds = 0;     // of jobs in the queue
  double processor_seconds = 0;  // of the coordinator's thread
  int64_t received = 0;          // messages, by the coordinator
  int64_t sent = 0;
  int64_t busiest_second = 0;  // messages received
  int jobs = 0;
  int preempted = 0;
  int timed_out = 0;    // by the engine, at their wall time
  int most_agents = 0;  // at the same time
  int left_over = 0;    // jobs that were not cancelled
  // Broken promises: a lease that two slots hold, a step trained past its
  // target. Empty: none.
  std::set<std::string> mistakes;
};

// Not thread-safe: everything happens on the coordinator's thread.
class VirtualCluster final : public AgentTransport {
 public:
  // The objective of a trial after a step.
  using Objective =
      std::function<double(const Point& point, int step, uint64_t seed)>;

  VirtualCluster(VirtualClusterOptions options, std::string study_id,
                 std::string metric, Objective objective);
  ~VirtualCluster() override;

  // The coordinator's.
  const Clock& clock() const { return clock_; }
  // For CoordinatorOptions: the launcher's decisions.
  void take_demand(const Demand& demand);
  void ensure_agents();
  // The launcher's end: no job is left in the engine.
  void close();
  VirtualClusterFigures figures() const;
  // Seconds of virtual time since the beginning.
  double now() const;
  // The coordinator computes for so long.
  void spend(double seconds) { advance_to(now() + seconds); }
  // Seconds that a step of so much work takes on a node, begun then.
  double step_seconds(int node, double begins) const;

  void poll(Duration patience, Wakeup& wakeup,
            const std::function<void(Frames)>& handle) override;
  bool send(Frames frames) override;
  const std::string& sender() const override { return key_; }
  bool is_local(const std::string& /*peer*/) const override { return false; }
  std::vector<std::string> take_notices() override { return {}; }
  std::string local_endpoint() const override { return "virtual"; }
  std::string remote_endpoint() const override { return "virtual"; }

 private:
  struct Slot {
    TrialId trial = 0;  // 0: none
    Attempt attempt = 0;
    Point point;
    uint64_t seed = 0;
    int step = 0;
    int target = 0;
    TrialId warm = 0;  // the trial that it had last
    bool starting = false;
    double began = 0;  // the step in flight
    double ends = -1;  // it; < 0: none is
    double idle_since = 0;
  };
  struct Job {
    int node = 0;
    bool running = false;
    bool here = false;  // its agent has said hello
    double submitted = 0;
    double eligible = 0;  // by then its turn has come
    double started = 0;
    double ends = 0;  // at its wall time; 0: never
    uint64_t activity = 0;
    Slot slot;
  };
  struct Event {
    double when = 0;
    uint64_t number = 0;
    std::function<void()> act;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  void at(double when, std::function<void()> act);
  void advance_to(double when);
  void account();
  void run_due();
  void say(const std::string& job, control::Message message);
  void open_nodes();
  std::string submit();
  void start_jobs();
  void begin(const std::string& name);
  void hello(const std::string& name);
  void heartbeat(const std::string& name);
  void preempt(const std::string& name, bool warned);
  void end(const std::string& name);
  void leave(const std::string& name, const std::string& why);
  bool is_here(const std::string& name) const;
  void assign(const std::string& name, const control::Assign& order);
  void next_step(const std::string& name);
  void step_done(const std::string& name, TrialId trial, Attempt attempt,
                 int step);
  void vacate(Slot& slot);
  template <class Order>
  void release(const std::string& name, const Order& order);
  void obey(const std::string& name, const control::Message& message);
  void check_lease(const std::string& name, const control::Assign& order);

  const VirtualClusterOptions options_;
  const std::string study_id_;
  const std::string metric_;
  const std::string key_ = "the job's key";
  const Objective objective_;
  std::vector<std::vector<double>> traces_;  // by node
  ManualClock clock_;
  Rng rng_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t numbers_ = 0;
  std::map<std::string, Job> jobs_;
  std::set<int> free_nodes_;
  ElasticJobs elastic_;
  std::optional<ElasticJobs::Action> action_;
  double action_ends_ = 0;
  double heartbeat_ = 1;
  std::vector<Frames> inbox_;
  std::set<std::pair<TrialId, int>> counted_;  // steps
  double processor_ = -1;  // of this thread, when poll() last returned
  int64_t second_ = -1;
  int64_t in_second_ = 0;
  VirtualClusterFigures figures_;
};

}  // namespace dtune
