// How each engine is asked: a table of functions, one row for each engine that
// dtune submits to by itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/submit/submission.h"

namespace dtune {

struct EngineCommands {
  std::string engine;
  // `file`: the request as people may see it. Returns the engine's id.
  std::string (*hand_over)(const SubmitJob& job,
                           const std::filesystem::path& file);
  EngineState (*state)(const Submission& submission);
  // `study`: as cancel_submission().
  void (*cancel)(const Submission& submission, const std::string& study);
  std::vector<std::string> (*log)(const Submission& submission);
  std::vector<std::string> (*status)(const Submission& submission);
};

// Throws Error(config), with how to do it by hand, for an engine that dtune
// only writes the request for.
const EngineCommands& engine_commands(const std::string& engine);

EngineCommands slurm_commands();
EngineCommands kubernetes_commands();
EngineCommands sagemaker_commands();

// kubectl with the context and namespace of an address.
std::vector<std::string> kubectl(const EngineAddress& to,
                                 std::vector<std::string> words);
// aws with the region of an address.
std::vector<std::string> aws(const EngineAddress& to,
                             std::vector<std::string> words);

}  // namespace dtune
