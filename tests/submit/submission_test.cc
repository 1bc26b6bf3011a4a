// Handing studies over to engines that are scripts: what they are called with,
// and how their answers are read.
#include "dtune/submit/submission.h"

#include <fstream>

#include "submit/fake_tools.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/submit/engine_commands.h"
#include "dtune/submit/value_forms.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// Its base64 begins with the same signs wherever it stands in a file.
constexpr const char* kSecret = "agents-secret";

class FakeEngine : public FakeTools {
 public:
  SubmitJob job(const std::string& to) const {
    SubmitJob job;
    job.to = parse_engine_address(to);
    job.name = "digits-3f2a";
    job.recipe = path() / "r.yaml";
    job.database = path() / "r.db";
    job.folder = path() / "r.files";
    job.recipe_text = "study: digits\n";
    job.program = "/opt/dtune/bin/dtune";
    job.key.emplace();
    job.key->server = {"server-public", "server-secret"};
    job.key->agents = {"agents-public", kSecret};
    return job;
  }
};

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Of all files below a folder, those that hold the key.
std::vector<std::string> files_with_key(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && holds(read_file(entry.path()), kSecret)) {
      names.push_back(entry.path().filename());
    }
  }
  return names;
}

}  // namespace

TEST_CASE("a submission is found by its name and by its study") {
  const FakeEngine engine;
  CHECK_FALSE(find_submission("digits-3f2a"));
  CHECK_FALSE(find_submission("../digits-3f2a"));
  engine.tool("sbatch", "echo '12;cluster'");
  const Submission done = submit_study(engine.job("slurm://gpu"));
  CHECK(done.id == "12");
  REQUIRE(find_submission("digits-3f2a"));
  CHECK(find_submission("digits-3f2a")->to == "slurm://gpu");
  REQUIRE(submission_of(engine.path() / "r.files"));
  CHECK(submission_of(engine.path() / "r.files")->id == "12");
  // The script that was handed over stays beside the study.
  CHECK(holds(engine.note("sbatch.args"), "r.files/digits-3f2a.sh"));
  CHECK(holds(engine.note("r.files/digits-3f2a.sh"), "#SBATCH"));
  CHECK(files_with_key(engine.path()).empty());
}

TEST_CASE("Slurm's own words say how far a submitted study is") {
  const FakeEngine engine;
  engine.tool("sbatch", "echo 12");
  const Submission done = submit_study(engine.job("slurm://gpu"));
  engine.tool("squeue", "echo 'PENDING|Priority|'");
  CHECK(engine_state(done).text == "job 12: pending: Priority");
  CHECK(engine_state(done).alive);
  engine.tool("squeue", "echo 'RUNNING|None|n[1-2]'");
  CHECK(engine_state(done).text == "job 12: running on n[1-2]");
  engine.tool("squeue", ":");
  CHECK_FALSE(engine_state(done).alive);
  engine.tool("squeue", "echo 'Invalid job id specified' >&2; exit 1");
  CHECK_FALSE(engine_state(done).alive);
  engine.tool("squeue", "echo 'Unable to contact controller' >&2; exit 1");
  CHECK_THROWS_WITH_AS(engine_state(done),
                       "squeue: Unable to contact controller", Error);
  // A job that has followed, where requeue was refused.
  std::ofstream(done.job_file) << "13\n";
  engine.tool("scancel", ":");
  cancel_submission(done, "");
  CHECK(engine.note("scancel.args") == "13\n");
}

TEST_CASE("agents' jobs are taken out once their coordinator has ended") {
  const FakeEngine engine;
  engine.tool("sbatch", "echo 12");
  const Submission done = submit_study(engine.job("slurm://gpu"));
  engine.tool("scancel",
              "cat \"${0%/*}/squeue.args\" 2>/dev/null | wc -l "
              ">>\"$0.after\"");
  engine.tool("squeue",
              "[ $(wc -l <\"$0.args\") -gt 2 ] || echo 'COMPLETING|None|n1'");
  cancel_submission(done, "digits-1");
  // The script's echo takes -n for itself.
  CHECK(engine.note("scancel.args") == "12\ndtune-digits-1");
  CHECK(engine.note("scancel.after") == "0\n3\n");
}

TEST_CASE("kubectl gets the key through stdin alone") {
  const FakeEngine engine;
  engine.tool("kubectl", ":");
  const Submission done =
      submit_study(engine.job("k8s://lab?image=i&agents=1&context=east"));
  CHECK(engine.note("kubectl.args") ==
        "--request-timeout=60s --context=east --namespace=lab create -f -\n");
  const std::string key = base64(engine.job("k8s://").key->text());
  CHECK(holds(engine.note("kubectl.stdin"), "job.key: \"" + key));
  CHECK_FALSE(holds(engine.note("kubectl.environ"), key));
  CHECK_FALSE(holds(engine.note("r.files/digits-3f2a.yaml"), key));
  CHECK(files_with_key(engine.path()).empty());

  engine.tool("kubectl", R"(echo '{"items": [
    {"metadata": {"labels": {"dtune/part": "coordinator"}},
     "status": {"phase": "Running"}},
    {"metadata": {"labels": {"dtune/part": "agent"}}, "status":
     {"phase": "Pending", "conditions": [{"reason": "Unschedulable"}]}},
    {"metadata": {"labels": {"dtune/part": "agent"}}, "status":
     {"phase": "Pending", "containerStatuses":
      [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}]}')");
  CHECK(engine_state(done).text ==
        "coordinator running; agents: 1 pending: Unschedulable, 1 waiting: "
        "ImagePullBackOff");
  CHECK(engine_state(done).alive);
  engine.tool("kubectl", "echo '{\"items\": []}'");
  CHECK_FALSE(engine_state(done).alive);
  engine.tool("kubectl", "echo no");
  CHECK_THROWS_AS(engine_state(done), Error);
  CHECK(log_command(done).back() == "digits-3f2a-0");
}

TEST_CASE("aws gets recipe and key through stdin, and a request without them") {
  const FakeEngine engine;
  // The request is a file that is gone afterwards.
  engine.tool("aws",
              "case $* in *create-training-job*) cat \"${4#file://}\" >" +
                  (engine.path() / "request.json").string() + ";; esac");
  const Submission done =
      submit_study(engine.job("sagemaker://arn:x?image=i&s3=s3://lab&kms=k"));
  const std::string args = engine.note("aws.args");
  CHECK(holds(args,
              "s3 cp - s3://lab/digits-3f2a/input/job.key --sse aws:kms "
              "--sse-kms-key-id k\n"));
  CHECK(engine.note("aws.stdin") ==
        "study: digits\n" + engine.job("k8s://").key->text());
  CHECK_FALSE(holds(args, kSecret));
  CHECK_FALSE(holds(engine.note("aws.environ"), kSecret));
  const auto request = nlohmann::json::parse(engine.note("request.json"));
  CHECK(request["TrainingJobName"] == "digits-3f2a");
  CHECK(files_with_key(engine.path()) == std::vector<std::string>{"aws.stdin"});

  engine.tool("aws", R"(echo '{"TrainingJobStatus": "InProgress",
                               "SecondaryStatus": "Starting"}')");
  CHECK(engine_state(done).text == "InProgress: Starting");
  CHECK(engine_state(done).alive);
  engine.tool("aws", R"(echo '{"TrainingJobStatus": "Failed",
    "SecondaryStatus": "Failed", "FailureReason": "AlgorithmError: lr"}')");
  CHECK(engine_state(done).text == "Failed: AlgorithmError: lr");
  CHECK_FALSE(engine_state(done).alive);
}

TEST_CASE(
    "an engine that dtune only writes scripts for says how to start one") {
  const FakeEngine engine;
  CHECK_THROWS_WITH_AS(
      submit_study(engine.job("pbs://night")),
      "dtune does not submit to PBS by itself (write the request with "
      "--dry-run >FILE, then: qsub FILE)",
      Error);
  CHECK_FALSE(fs::exists(engine.path() / "r.files"));
}
