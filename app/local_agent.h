// This machine's agent, run as a child of `dtune run`.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "app/machine.h"

#include "dtune/base/clock.h"
#include "dtune/cluster/child_process.h"

namespace dtune {

struct LocalAgentOptions {
  std::string endpoint;  // of the coordinator
  std::string study_id;
  SlotPlan slots;
  std::filesystem::path log;  // what agent and workers say goes here
};

// Owned and used by the thread that runs the coordinator: the kernel kills the
// agent when that thread ends, however it ends.
class LocalAgent {
 public:
  explicit LocalAgent(LocalAgentOptions options);
  ~LocalAgent();  // kills it

  // Starts the agent where none runs and keeps its log. Call often. Throws
  // Error(study) with its last words where it ends again and again.
  void ensure();

 private:
  void start();
  void keep_log();

  LocalAgentOptions options_;
  std::unique_ptr<Child> child_;
  std::ofstream log_;
  std::string last_words_;
  int early_deaths_ = 0;  // in a row, each soon after its start
  MonoTime started_{};
  MonoTime next_start_{};
};

}  // namespace dtune
