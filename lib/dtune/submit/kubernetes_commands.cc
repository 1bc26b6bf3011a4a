#include <map>

#include <fmt/format.h>

#include "dtune/submit/engine_commands.h"
#include "dtune/submit/kubectl_list.h"
#include "dtune/submit/tool.h"

namespace dtune {
namespace {

EngineAddress place_of(const Submission& submission) {
  return parse_engine_address(submission.to);
}

std::string selector(const Submission& submission) {
  return "dtune/study=" + submission.name;
}

// By create: apply would copy the Secret into an annotation.
std::string create(const SubmitJob& job, const std::filesystem::path&) {
  tool_output(kubectl(job.to, {"create", "-f", "-"}), render_request(job));
  return job.name;
}

std::string counted(const std::map<std::string, int>& agents) {
  std::string text;
  for (const auto& [words, count] : agents) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, words);
  }
  return text.empty() ? "no agents" : "agents: " + text;
}

EngineState kubernetes_state(const Submission& submission) {
  const std::string said = tool_output(kubectl(
      place_of(submission),
      {"get", "pods", "--selector", selector(submission), "--output", "json"}));
  std::map<std::string, int> agents;
  std::string coordinator;
  for (const ClusterObject& pod : read_kubectl_list(said)) {
    if (pod.part == "coordinator") coordinator = pod.state();
    if (pod.part == "agent") ++agents[pod.state()];
  }
  if (coordinator.empty() && agents.empty()) return {false, "has no pods"};
  return {!coordinator.empty(),
          fmt::format("coordinator {}; {}",
                      coordinator.empty() ? "is gone" : coordinator,
                      counted(agents))};
}

// The volume stays: the study is on it.
void kubernetes_cancel(const Submission& submission, const std::string&) {
  tool_output(kubectl(place_of(submission),
                      {"delete",
                       "job,statefulset,service,networkpolicy,"
                       "configmap,secret",
                       "--selector", selector(submission), "--wait=false"}));
}

std::vector<std::string> kubernetes_log(const Submission& submission) {
  return kubectl(place_of(submission),
                 {"logs", "--follow", submission.name + "-0"});
}

std::vector<std::string> kubernetes_status(const Submission& submission) {
  return kubectl(place_of(submission),
                 {"exec", submission.name + "-0", "--", "/usr/local/bin/dtune",
                  "status", "/study/study.db"});
}

}  // namespace

std::vector<std::string> kubectl(const EngineAddress& to,
                                 std::vector<std::string> words) {
  std::vector<std::string> argv = {"kubectl", "--request-timeout=60s"};
  if (!to.value("context").empty()) {
    argv.push_back("--context=" + to.value("context"));
  }
  if (!to.place.empty()) argv.push_back("--namespace=" + to.place);
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

EngineCommands kubernetes_commands() {
  return {"k8s",          create,           kubernetes_state, kubernetes_cancel,
          kubernetes_log, kubernetes_status};
}

}  // namespace dtune
