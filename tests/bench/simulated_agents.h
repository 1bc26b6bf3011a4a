// Agents that train nothing: a thousand of them in one process, each with a
// connection of its own to a coordinator, as far as that can tell.
#pragma once

#include <string>

namespace dtune::bench {

struct SimulatedAgents {
  std::string endpoint;
  std::string study_id;
  int agents = 1000;
  int slots = 8;  // of each
  // Of a step, in the mean; 0: a step is done when the one before was
  // acknowledged.
  double step_seconds = 0;
};

struct Latencies {
  double p50_ms = 0;
  double p99_ms = 0;
};

struct AgentFigures {
  long reports = 0;    // acknowledged
  double seconds = 0;  // from the first assignment to the last acknowledgement
  Latencies report;    // from sending it to its acknowledgement, once on disk
  Latencies assignment;  // from a trial's last report to the slot's next trial
};

// Until the coordinator says stop.
AgentFigures run_agents(const SimulatedAgents& options);

}  // namespace dtune::bench
