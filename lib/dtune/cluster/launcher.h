// How agents come to be on nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dtune {

// An agent that takes part in the study.
struct PresentAgent {
  std::string job;  // of an engine, as the agent says it; "": none
  int slots = 1;
  bool ends = false;  // soon: another is to take its place
};

// What a launcher that asks an engine for agents has to know.
struct Demand {
  // Slots that trials could use now, those in use included; 0: nothing more.
  int64_t slots = 0;
  std::vector<PresentAgent> agents;
};

// One way to start agents (on this machine, over ssh) and the agents that were
// started in it. Owned and used by the thread that runs the coordinator: their
// processes end with that thread, however it ends.
class Launcher {
 public:
  virtual ~Launcher() = default;

  // Starts what should run and does not. Call often; does not block. Throws
  // Error(study) where the study cannot go on without it.
  virtual void ensure() = 0;
  // Takes what its agents have written, until they have ended: one whose pipe
  // is full stands still. Call often; does not block. For those whose agents
  // are children of this process.
  virtual void read_output() {}
  // What the next ensure() goes by; for those whose agents come and go.
  virtual void set_demand(const Demand&) {}
  // The agents are asked to end and are not started again. Does not wait; the
  // destructor does, a little.
  virtual void close() = 0;

  // Sentences for the user since the last call: why an agent is not there; that
  // it is back.
  virtual std::vector<std::string> take_notices() = 0;
  // No agent runs and none will be started; problem() says why.
  virtual bool given_up() const = 0;
  virtual std::string problem() const = 0;
};

}  // namespace dtune
