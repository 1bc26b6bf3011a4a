// The values that an engine's template has places for.
#pragma once

#include "dtune/submit/request.h"

namespace dtune {

// All throw Error(config) where the address lacks what the engine needs.
std::vector<std::string> slurm_submit_keys();
TemplateValues slurm_values(const SubmitJob& job);
TemplateValues kubernetes_values(const SubmitJob& job);
TemplateValues kubernetes_agent_values(const SubmitJob& job, int number);
TemplateValues sagemaker_values(const SubmitJob& job);
// Of engines that start the same command on every node: PBS, LSF, Flux, and
// HTCondor with one node.
TemplateValues rank_values(const SubmitJob& job);
// The same in containers: AWS Batch, SkyPilot.
TemplateValues container_values(const SubmitJob& job);

}  // namespace dtune
