#include "dtune/submit/kubernetes_launcher.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/cluster/job_key.h"
#include "dtune/cluster/launch_failure.h"
#include "dtune/submit/engine_commands.h"
#include "dtune/submit/engine_values.h"
#include "dtune/submit/kubectl_list.h"
#include "dtune/submit/templates.h"
#include "dtune/submit/tool.h"
#include "dtune/submit/value_forms.h"

namespace dtune {
namespace {

constexpr const char* kPodKey = "/etc/dtune/key/job.key";

ElasticOptions kubernetes_options(const EngineAddress& address) {
  ElasticOptions options;
  options.name = "k8s://" + address.place;
  options.most = kubernetes_max(address);
  options.listing_interval = kubernetes_poll(address);
  return options;
}

// A label's value: at most 63 signs, as a DNS label.
std::string label_of(const std::string& study_id) {
  std::string label = as_label(study_id);
  constexpr size_t kLongest = 50;
  if (label.size() > kLongest) label.erase(0, label.size() - kLongest);
  return "s" + label;
}

// After what kubectl warns of; none where that is no list: the next one counts.
std::vector<ClusterObject> objects_in(const std::string& words) {
  try {
    const size_t begin = words.find('{');
    return read_kubectl_list(begin == std::string::npos ? ""
                                                        : words.substr(begin));
  } catch (const Error&) {
    return {};
  }
}

const FailureWord kKubectlWords[] = {
    {{"(Forbidden)"},
     "may you create Jobs and Secrets there? kubectl auth can-i",
     true},
    {{"Unauthorized"}, "log in again: kubectl config", true},
    {{"exceeded quota"}, "it is tried again; fewer pods: max=", false},
    {{"namespaces"}, "does the namespace exist? kubectl get namespaces", true},
    {{"context was not found"}, "kubectl config get-contexts lists them", true},
    {{"error validating"},
     "this cluster does not know a part of the Job",
     true},
    {{"is invalid"}, "see the value that it names", true},
    {{"connection to the server", "i/o timeout"}, "it is tried again", false},
};

}  // namespace

LaunchFailure explain_kubectl(const std::string& name, const ExitStatus& status,
                              const std::string& words) {
  const std::string said = last_line_of(words, "kubectl printed no message");
  return explain_failure(find_failure(kKubectlWords, words), name, status,
                         said);
}

KubernetesLauncher::KubernetesLauncher(KubernetesLauncherOptions options,
                                       const Clock& clock)
    : ElasticLauncher(kubernetes_options(options.address), clock),
      options_(std::move(options)),
      label_(label_of(options_.study_id)) {
  check_kubernetes_address(options_.address);
}

KubernetesLauncher::~KubernetesLauncher() { finish(std::chrono::seconds(10)); }

// Numbered by the coordinator's process, so that the one after it makes others.
std::string KubernetesLauncher::manifests() {
  SubmitJob job;
  job.to = options_.address;
  job.name = label_;
  TemplateValues values = kubernetes_agent_values(job, 0);
  const std::string name =
      fmt::format("{}-{}-{}", label_, ::getpid(), ++submitted_);
  values.texts["agent"] = values.texts["secret"] = name;
  values.texts["agents_key"] =
      base64(read_job_key(options_.job_key.string()).for_agents().text());
  std::vector<std::string>& words = values.lists["agent_command"];
  words = {"/usr/local/bin/dtune", "agent", "--job-key", kPodKey};
  words.insert(words.end(), options_.agent.begin(), options_.agent.end());
  return render_template(built_in_template("k8s-agent.yaml"), values);
}

EngineCommand KubernetesLauncher::command(Action action) {
  const std::string selector = "dtune/study=" + label_;
  if (action == Action::submit) {
    return {kubectl(options_.address, {"create", "-f", "-", "-o", "name"}),
            manifests()};
  }
  if (action == Action::list) {
    return {kubectl(options_.address,
                    {"get", "pods,jobs", "--selector", selector, "-o", "json"}),
            ""};
  }
  return {kubectl(options_.address, {"delete", "job,secret", "--selector",
                                     selector, "--wait=false"}),
          ""};
}

// "secret/NAME", "job.batch/NAME".
std::string KubernetesLauncher::submitted(const std::string& words) {
  constexpr std::string_view kKind = "job.batch/";
  std::istringstream lines(words);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kKind)) return line.substr(kKind.size());
  }
  return "";
}

// A Job is pending until its pod runs; one that is over is not listed.
std::vector<ListedJob> KubernetesLauncher::listed(const std::string& words) {
  const std::vector<ClusterObject> objects = objects_in(words);
  std::map<std::string, ListedJob> jobs;
  for (const ClusterObject& one : objects) {
    if (one.kind == "Job" && !one.over) {
      jobs[one.name] = {one.name, true, one.reason, one.name};
    }
  }
  for (const ClusterObject& pod : objects) {
    const auto job = jobs.find(pod.job);
    if (pod.kind != "Pod" || job == jobs.end()) continue;
    if (pod.phase == "running") job->second.pending = false;
    if (!pod.reason.empty()) job->second.reason = pod.reason;
  }
  std::vector<ListedJob> out;
  out.reserve(jobs.size());
  for (auto& [name, job] : jobs) out.push_back(std::move(job));
  return out;
}

LaunchFailure KubernetesLauncher::explain(Action, const ExitStatus& status,
                                          const std::string& words) {
  return explain_kubectl("k8s://" + options_.address.place, status, words);
}

}  // namespace dtune
