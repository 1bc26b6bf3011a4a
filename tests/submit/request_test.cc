// What engines are handed, read back as the engines read it.
#include "dtune/submit/request.h"

#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/submit/engine_values.h"
#include "dtune/submit/tool.h"
#include "dtune/submit/value_forms.h"

using namespace dtune;  // NOLINT: a test

namespace {

JobKey some_key() {
  JobKey key;
  key.server = {"server-public", "server-secret"};
  key.agents = {"agents-public", "agents-secret"};
  return key;
}

SubmitJob request_job(const std::string& to) {
  SubmitJob job;
  job.to = parse_engine_address(to);
  job.name = "digits-3f2a";
  job.recipe = "/home/me/my digits.yaml";
  job.database = "/home/me/my digits.db";
  job.folder = "/home/me/my digits.files";
  job.recipe_text = "study: digits\nbudget: { trials: 3 }\n";
  job.set = {"train.epochs=4"};
  job.program = "/opt/dtune/bin/dtune";
  return job;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string request_error(const std::string& to) {
  try {
    render_request(request_job(to));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

// sh reads it to its end and runs nothing.
bool is_shell(const std::string& script) {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "script.sh";
  write_file_atomic(file, script, false);
  const ToolResult read = run_tool({"bash", "-n", file.string()});
  INFO(read.err);
  return read.good();
}

// The least that a reader of YAML asks for: no tab, no place left, indentation
// in pairs of blanks. The whole is read by tests/interop.
void check_manifests(const std::string& text) {
  CHECK_FALSE(has(text, "{{"));
  CHECK_FALSE(has(text, "\t"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t indent = line.find_first_not_of(' ');
    CAPTURE(line);
    CHECK((indent == std::string::npos || indent % 2 == 0));
  }
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("one job on one node runs the study by itself") {
  const std::string script =
      render_request(request_job("slurm://gpu?time=4h&gres=gpu:1&cpus=8"));
  CHECK(is_shell(script));
  CHECK(has(script, "\n#SBATCH --job-name=digits-3f2a\n"));
  CHECK(has(script, "--partition=gpu"));
  CHECK(has(script, "--gres=gpu:1"));
  CHECK(has(script, "--cpus-per-task=8"));
  CHECK(has(script, "--requeue --signal=B:USR2@180"));
  CHECK(has(script,
            "\n/opt/dtune/bin/dtune run '/home/me/my digits.yaml' --db "
            "'/home/me/my digits.db' --set train.epochs=4 &\n"));
  CHECK_FALSE(has(script, "srun"));
  // A job of two minutes is not warned before it begins.
  CHECK(has(render_request(request_job("slurm://gpu?time=2m")), "USR2@30\n"));
}

TEST_CASE("one job on many nodes starts the same command on each") {
  const std::string script = render_request(request_job("slurm://?nodes=4"));
  CHECK(is_shell(script));
  CHECK(has(script, "#SBATCH --nodes=4 --ntasks-per-node=1\n"));
  CHECK(has(script, "srun --kill-on-bad-exit=0 --cpu-bind=none"));
  CHECK_FALSE(has(script, "--partition"));
}

TEST_CASE(
    "a coordinator of agents takes one core and passes on what they need") {
  const std::string script = render_request(request_job(
      "slurm://gpu?max=8&time=4h&gres=gpu:1&head=cpu&head_time=2d"));
  CHECK(is_shell(script));
  CHECK(has(script, "#SBATCH --ntasks=1 --cpus-per-task=1\n"));
  CHECK(has(script, "#SBATCH --partition=cpu --time=2880\n"));
  CHECK(has(script, "nodes=[\"slurm://gpu?gres=gpu:1&max=8&time=4h\"]"));
  CHECK_FALSE(has(script, "#SBATCH --gres"));
}

TEST_CASE("lines of the user are directives, a template replaces all") {
  SubmitJob job = request_job("slurm://gpu");
  job.raw = {"#SBATCH --exclusive"};
  CHECK(has(render_request(job), "\n#SBATCH --exclusive\n"));
  job.replacement = Template{"own.sh", "#!/bin/sh\nexec {{command*}}\n",
                             TemplateLanguage::shell};
  CHECK(render_request(job) ==
        "#!/bin/sh\nexec /opt/dtune/bin/dtune run '/home/me/my digits.yaml' "
        "--db '/home/me/my digits.db' --set train.epochs=4\n");
}

TEST_CASE("what is wrong with an address is said before anything is written") {
  CHECK(request_error("slrum://gpu")
            .starts_with("'slrum://gpu': there is no engine 'slrum', did you "
                         "mean 'slurm'?"));
  CHECK(has(request_error("slurm://gpu?gress=gpu:1"), "did you mean 'gres'?"));
  CHECK(has(request_error("slurm://gpu?max=2&nodes=2"),
            "has both nodes and max"));
  CHECK(has(request_error("slurm://gpu?time=never"), "time"));
  CHECK(has(request_error("slurm://gpu?gres=a%20--wrap=x"), "more by --raw"));
  CHECK(has(request_error("k8s://lab"), "image is missing"));
  CHECK(has(request_error("sagemaker://?image=i&s3=b"), "role is missing"));
  CHECK(has(request_error("sagemaker://arn:x?image=i"), "s3 is missing"));
  CHECK(has(request_error("batch://q?image=i"), "filesystem is missing"));
}

TEST_CASE(
    "Kubernetes gets a coordinator on a volume, and a Job for each agent") {
  SubmitJob job =
      request_job("k8s://lab?image=reg/dtune:1&agents=2&gpu=1&queue=team");
  job.key = some_key();
  job.raw = {"nodeSelector: { disk: ssd }"};
  const std::string text = render_request(job);
  check_manifests(text);
  std::multiset<std::string> kinds;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("kind: ")) kinds.insert(line.substr(6));
  }
  CHECK(kinds == std::multiset<std::string>{"ConfigMap", "Job", "Job",
                                            "NetworkPolicy", "Secret", "Secret",
                                            "Service", "StatefulSet"});
  CHECK(has(text, "recipe.yaml: \"study: digits\\nbudget: { trials: 3 }\\n\""));
  CHECK(has(text, "name: \"digits-3f2a-agent-1\""));
  // Every pod: no root, nothing to write on but volumes, no way to the API.
  for (const char* guard :
       {"runAsNonRoot: true", "readOnlyRootFilesystem: true",
        "automountServiceAccountToken: false", "capabilities: { drop: [ALL] }",
        "defaultMode: 256", "nodeSelector: { disk: ssd }",
        "nvidia.com/gpu: \"1\""}) {
    CAPTURE(guard);
    CHECK(count_of(text, guard) == 3);
  }
  CHECK(count_of(text,
                 "onPodConditions: [{ type: DisruptionTarget, status: "
                 "\"True\" }]") == 2);
  CHECK(count_of(text, "kueue.x-k8s.io/queue-name: \"team\"") == 2);
}

TEST_CASE("the key of Kubernetes' agents is in Secrets alone") {
  SubmitJob job = request_job("k8s://lab?image=reg/dtune:1&agents=3");
  job.key = some_key();
  const std::string text = render_request(job);
  CHECK_FALSE(has(text, "-secret\n"));
  const std::string whole = base64(job.key->text());
  JobKey agents = job.key->for_agents();
  agents.endpoint = "tcp://digits-3f2a-0.digits-3f2a:5555";
  const std::string part = base64(agents.text());
  CHECK_FALSE(has(agents.text(), "server-secret"));
  for (const std::string& key : {whole, part}) {
    CHECK(count_of(text, key) == 1);
    CHECK(text.find(key) < text.find("kind: ConfigMap"));
  }
  job.key.reset();
  CHECK_FALSE(has(render_request(job), whole));
  CHECK_FALSE(has(render_request(job), part));
}

TEST_CASE("SageMaker gets a request without a secret") {
  SubmitJob job = request_job(
      "sagemaker://arn:aws:iam::123456789012:role/dtune?image=reg/dtune:1&"
      "s3=s3://lab/studies&count=12&spot=yes&time=2h&kms=alias/lab");
  job.key = some_key();
  job.raw = {"\"Tags\": [ { \"Key\": \"team\", \"Value\": \"lab\" } ],"};
  const std::string text = render_request(job);
  CHECK(text.starts_with("# Study digits-3f2a on SageMaker"));
  CHECK_FALSE(has(text, "-secret"));
  const auto json = nlohmann::json::parse(without_comments(text));
  CHECK(json["TrainingJobName"] == "digits-3f2a");
  CHECK(json["RoleArn"] == "arn:aws:iam::123456789012:role/dtune");
  CHECK(json["AlgorithmSpecification"]["ContainerArguments"][0] == "train");
  CHECK(json["HyperParameters"] == nlohmann::json{{"train.epochs", "4"}});
  CHECK(json["ResourceConfig"]["InstanceCount"] == 12);
  CHECK(json["StoppingCondition"]["MaxRuntimeInSeconds"] == 7200);
  CHECK(json["StoppingCondition"]["MaxWaitTimeInSeconds"] == 7200);
  CHECK(json["CheckpointConfig"]["S3Uri"] ==
        "s3://lab/studies/digits-3f2a/checkpoints");
  CHECK(json["Tags"][0]["Value"] == "lab");
}

TEST_CASE("every engine has a complete, commented request") {
  const std::pair<const char*, const char*> all[] = {
      {"slurm", "slurm://gpu"},
      {"k8s", "k8s://lab?image=i"},
      {"sagemaker", "sagemaker://arn:x?image=i&s3=b"},
      {"pbs", "pbs://night?nodes=4&time=90m&account=lab"},
      {"lsf", "lsf://night?nodes=4&time=90m"},
      {"flux", "flux://?nodes=4&time=90m"},
      {"htcondor", "htcondor://?cpus=4"},
      {"batch", "batch://night?nodes=4&image=i&filesystem=fs-1"},
      {"skypilot", "skypilot://aws?nodes=4&image=i"}};
  CHECK(std::size(all) == submit_engines().size());
  for (const auto& [engine, to] : all) {
    CAPTURE(engine);
    const std::string text = render_request(request_job(to));
    CHECK(submit_engine(parse_engine_address(to)).name == engine);
    CHECK_FALSE(has(text, "{{"));
    CHECK(has(text, "# Study digits-3f2a on") +
              has(text, "# Study digits-3f2a by") ==
          1);
    if (text.starts_with("#!")) CHECK(is_shell(text));
    // Engines do not make the folder that the log goes to.
    const bool logs_here = has(text, "/digits-3f2a.log");
    CHECK(logs_here == has(text, "#   mkdir -p "));
  }
  CHECK(has(render_request(request_job("pbs://night?time=90m")),
            "#PBS -l walltime=1:30:00\n"));
  CHECK(has(render_request(request_job("lsf://night?time=90m")),
            "#BSUB -W 1:30\n"));
  CHECK(has(render_request(request_job("htcondor://")),
            "arguments = \"'run' '/home/me/my digits.yaml'"));
  const auto batch = nlohmann::json::parse(without_comments(render_request(
      request_job("batch://night?nodes=4&image=i&filesystem=fs-1"))));
  CHECK(batch["nodeProperties"]["numNodes"] == 4);
}

TEST_CASE("a name fits every engine") {
  CHECK(study_name_for_engines("Digits 2!", 0x12345) == "digits-2--2345");
  CHECK(study_name_for_engines("", 1) == "s-0001");
  CHECK(study_name_for_engines("7up", 1) == "s7up-0001");
  CHECK(study_name_for_engines(std::string(99, 'x'), 1).size() == 40);
  CHECK(study_name_for_engines("\xc3\xa4x", 1) == "s--x-0001");
}

TEST_CASE("base64 as RFC 4648 has it") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}
