// Agents asked of a kubectl that is a script: it notes what it is given and
// lists what a file says.
#include "dtune/submit/kubernetes_launcher.h"

#include <fstream>
#include <functional>

#include "eventually.h"
#include "submit/fake_tools.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"
#include "dtune/cluster/job_key.h"
#include "dtune/submit/kubectl_list.h"
#include "dtune/submit/value_forms.h"

using namespace dtune;  // NOLINT: a test

namespace {

constexpr const char* kKubectl = R"sh(case $* in
  *create*) echo secret/made; grep -o 'name: "sdigits-[0-9-]*"' $0.stdin |
    tail -1 | sed 's|name: "\(.*\)"|job.batch/\1|';;
  *get*) cat $(dirname $0)/list.json;;
esac)sh";

class Cluster : public FakeTools {
 public:
  Cluster() {
    tool("kubectl", kKubectl);
    list(R"({"items": []})");
    JobKey key = make_job_key();
    key.endpoint = "tcp://10.0.0.1:5555";
    write_job_key(path() / "job.key", key);
  }

  void list(const std::string& json) const {
    std::ofstream(path() / "list.json") << json;
  }
  KubernetesLauncherOptions options() const {
    KubernetesLauncherOptions options;
    options.address = parse_engine_address("k8s://lab?image=i&max=4&poll=1s");
    options.study_id = "digits";
    options.job_key = path() / "job.key";
    options.agent = {"--study", "digits"};
    return options;
  }
};

bool run_until(KubernetesLauncher& launcher,
               const std::function<bool()>& done) {
  return eventually([&] {
    launcher.ensure();
    return done();
  });
}

size_t lines_with(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("an agent is a Job with a Secret of its own, and nothing stays") {
  const Cluster cluster;
  std::string said;
  {
    KubernetesLauncher launcher(cluster.options());
    launcher.set_demand({.slots = 9});
    CHECK(run_until(launcher, [&] {
      return lines_with(cluster.note("kubectl.args"), "create") >= 2;
    }));
    for (const std::string& notice : launcher.take_notices()) said += notice;
  }
  CHECK(said.find("k8s://lab: asked for an agent: job sdigits-") !=
        std::string::npos);
  const std::string manifests = cluster.note("kubectl.stdin");
  const JobKey key = read_job_key((cluster.path() / "job.key").string());
  CHECK(manifests.find(base64(key.for_agents().text())) != std::string::npos);
  CHECK(manifests.find(
            "\"--job-key\", \"/etc/dtune/key/job.key\", \"--study\"") !=
        std::string::npos);
  // Two wait at most; the end deletes both.
  CHECK(lines_with(manifests, "kind: Job") == 2);
  const std::string args = cluster.note("kubectl.args");
  CHECK(args.find("delete job,secret --selector dtune/study=sdigits") !=
        std::string::npos);
  for (const std::string& seen : {args, cluster.note("kubectl.environ")}) {
    CHECK(seen.find(key.agents.secret_key) == std::string::npos);
    CHECK(seen.find(base64(key.for_agents().text())) == std::string::npos);
  }
}

TEST_CASE(
    "Jobs of a coordinator that died are taken over, with their reasons") {
  const Cluster cluster;
  cluster.list(R"({"items": [
    {"kind": "Job", "metadata": {"name": "sdigits-7-1"}},
    {"kind": "Job", "metadata": {"name": "sdigits-7-2"}, "status":
     {"conditions": [{"type": "Complete", "status": "True"}]}},
    {"kind": "Pod", "metadata": {"name": "sdigits-7-1-x", "labels":
     {"job-name": "sdigits-7-1"}}, "status": {"phase": "Pending",
     "conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}}]})");
  KubernetesLauncher launcher(cluster.options());
  std::string said;
  CHECK(run_until(launcher, [&] {
    for (const std::string& notice : launcher.take_notices()) said += notice;
    return said.find("Unschedulable") != std::string::npos;
  }));
  CHECK(said.find("sdigits-7-1 of this study is in the queue already") !=
        std::string::npos);
  CHECK(said.find("sdigits-7-2") == std::string::npos);
}

TEST_CASE("kubectl's refusals come with a remedy") {
  const ExitStatus one{.exit_code = 1};
  const LaunchFailure refused = explain_kubectl(
      "k8s://lab", one,
      "Error from server (Forbidden): jobs.batch is forbidden: User \"me\"\n");
  CHECK(refused.lasts);
  CHECK(refused.text ==
        "k8s://lab: Error from server (Forbidden): jobs.batch is forbidden: "
        "User \"me\" (may you create Jobs and Secrets there? kubectl auth "
        "can-i)");
  CHECK_FALSE(explain_kubectl("k8s://lab", one, "i/o timeout").lasts);
  CHECK_FALSE(explain_kubectl("k8s://lab", one, "").lasts);
}

TEST_CASE("an incomplete list from kubectl is refused") {
  CHECK_THROWS(read_kubectl_list("{\"items\": ["));
  CHECK_THROWS(read_kubectl_list("no"));
  CHECK(read_kubectl_list("{\"items\": []}").empty());
  const auto one = read_kubectl_list(
      R"({"items": [{"kind": "Job", "spec": {"suspend": true}}, {}]})");
  CHECK(one[0].reason == "Suspended");
  CHECK(one[1].phase == "unknown");
}
