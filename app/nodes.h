// The agents that a study's recipe asks for (`nodes:`): this machine's, those
// that are started over ssh, and those that an engine starts.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/machine.h"

#include "dtune/base/clock.h"
#include "dtune/cluster/bounded_log.h"
#include "dtune/cluster/launcher.h"
#include "dtune/study/engine_address.h"
#include "dtune/study/recipe.h"

namespace dtune {

struct NodesOptions {
  std::vector<NodeSpec> nodes;  // empty: this machine alone
  std::string study_id;
  SlotPlan slots;              // of this machine
  int threads = 1;             // of a slot elsewhere
  int fused = 1;               // likewise: fused_wanted()
  std::string local_endpoint;  // of the coordinator, for this machine
  // tcp://..., as other machines reach it; "" where no node is elsewhere.
  std::string remote_endpoint;
  // EnrolmentServer::make_token; needed where a node is elsewhere.
  std::function<std::string()> make_token;
  std::filesystem::path log;      // lines of other nodes begin with their names
  bool gangs = false;             // a trial takes several slots
  bool gpus = false;              // trials use those that a node has
  std::filesystem::path job_key;  // for agents that an engine starts
};

// Owned and used by the thread that runs the coordinator, as a Launcher.
class Nodes {
 public:
  // Throws Error(config) for an invalid address, and for remote nodes
  // without an endpoint and tokens.
  explicit Nodes(NodesOptions options);
  ~Nodes();  // ends all of them

  // Starts what does not run. Call often; does not block. Throws Error(study)
  // where no node is left that could be started, with why of each.
  void ensure();
  // Takes what the agents have written, as Launcher::read_output().
  void read_output();
  // What the next ensure() goes by.
  void set_demand(const Demand& demand);
  // Sentences for the user since the last call: for
  // CoordinatorOptions::take_notices.
  std::vector<std::string> take_notices();

 private:
  void add_local();
  void add_ssh(const NodeSpec& node);
  void add_engine(const NodeSpec& node);
  void add_slurm(const NodeSpec& node, const EngineAddress& address);
  void add_kubernetes(const NodeSpec& node, const EngineAddress& address);
  std::vector<std::string> options_of_agent(const NodeSpec& node,
                                            Duration lifetime,
                                            Duration idle) const;
  const char* devices_elsewhere() const;
  void check_reachable(const NodeSpec& node) const;
  void write_log(const std::string& node, const std::string& line);
  void check_any_left() const;

  const NodesOptions options_;
  BoundedLog log_;
  bool has_local_ = false;
  std::vector<std::unique_ptr<Launcher>> launchers_;
};

}  // namespace dtune
