#include "dtune/submit/request.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <sstream>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/submit/engine_values.h"
#include "dtune/submit/templates.h"

namespace dtune {
namespace {

std::vector<std::string> rank_keys(std::vector<std::string> more) {
  more.insert(more.begin(), {"nodes", "time", "cpus", "account"});
  return more;
}

std::string agents_of(const SubmitJob& job) {
  const int agents = engine_number(job.to, "agents", 0, 0, 1000);
  std::string text;
  for (int i = 0; i < agents; ++i) {
    text += render_template(built_in_template("k8s-agent.yaml"),
                            kubernetes_agent_values(job, i));
  }
  return text;
}

}  // namespace

const std::vector<SubmitEngine>& submit_engines() {
  static const std::vector<SubmitEngine> all = {
      {"slurm", "Slurm", "partition", slurm_submit_keys(), "", "slurm.sh",
       slurm_values},
      {"k8s",
       "Kubernetes",
       "namespace",
       {"image", "agents", "cpu", "memory", "gpu", "storage", "class", "data",
        "queue", "pull", "context"},
       "",
       "k8s.yaml",
       kubernetes_values},
      {"sagemaker",
       "SageMaker",
       "role",
       {"image", "s3", "instance", "count", "time", "volume", "kms", "spot",
        "data", "region"},
       "",
       "sagemaker.json",
       sagemaker_values},
      {"pbs", "PBS", "queue", rank_keys({}), "qsub", "pbs.sh", rank_values},
      {"lsf", "LSF", "queue", rank_keys({}), "bsub <", "lsf.sh", rank_values},
      {"flux", "Flux", "queue", rank_keys({}), "flux batch", "flux.sh",
       rank_values},
      {"htcondor",
       "HTCondor",
       "pool",
       {"cpus", "mem", "gpu"},
       "condor_submit",
       "htcondor.sub",
       rank_values},
      {"batch",
       "AWS Batch",
       "queue",
       {"nodes", "image", "filesystem", "cpus", "mem", "gpu"},
       "aws batch register-job-definition --cli-input-json",
       "batch.json",
       container_values},
      {"skypilot",
       "SkyPilot",
       "cloud",
       {"nodes", "image", "cpus", "accelerators"},
       "sky jobs launch",
       "skypilot.yaml",
       container_values},
  };
  return all;
}

const SubmitEngine& submit_engine(const EngineAddress& address) {
  std::vector<std::string> names;
  for (const SubmitEngine& one : submit_engines()) names.push_back(one.name);
  check_engine(address, names);
  const auto engine =
      std::ranges::find(submit_engines(), address.engine, &SubmitEngine::name);
  check_engine_keys(address, engine->keys);
  return *engine;
}

std::string study_name_for_engines(const std::string& study, uint64_t unique) {
  constexpr size_t kLongest = 35;
  std::string word = as_label(study.substr(0, kLongest));
  // Begins with a letter.
  if (word.empty() || std::isalpha(static_cast<unsigned char>(word[0])) == 0) {
    word = "s" + word.substr(0, kLongest - 1);
  }
  return fmt::format("{}-{:04x}", word, unique & 0xffff);
}

std::string render_request(const SubmitJob& job) {
  const SubmitEngine& engine = submit_engine(job.to);
  const TemplateValues values = engine.values(job);
  if (job.replacement) return render_template(*job.replacement, values);
  std::string text = render_template(built_in_template(engine.file), values);
  if (engine.name == "k8s") text += agents_of(job);
  return text;
}

std::string without_comments(const std::string& request) {
  std::istringstream lines(request);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) text += line + '\n';
  }
  return text;
}

}  // namespace dtune
