// Slurm's commands and words; with Slurm itself: tests/app/slurm_test.sh.
#include "dtune/cluster/slurm_launcher.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cluster/settle.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

LaunchFailure failure_of(const std::string& words, int code = 1) {
  return explain_slurm("slurm://gpu", {code, 0}, words);
}

}  // namespace

TEST_CASE(
    "errors that the user has to mend are distinguished from passing ones") {
  const LaunchFailure partition = failure_of(
      "sbatch: error: invalid partition specified: gpx\n"
      "sbatch: error: Batch job submission failed: Invalid partition name "
      "specified\n");
  CHECK(partition.lasts);
  CHECK(partition.text ==
        "slurm://gpu: sbatch: error: Batch job submission failed: Invalid "
        "partition name specified (sinfo lists the partitions)");
  CHECK(failure_of("sbatch: error: Invalid generic resource (gres) "
                   "specification")
            .lasts);
  CHECK(failure_of("sbatch: error: Batch job submission failed: Requested node "
                   "configuration is not available")
            .lasts);
  CHECK_FALSE(failure_of("sbatch: error: QOSMaxSubmitJobPerUserLimit").lasts);
  CHECK_FALSE(failure_of("slurm_load_jobs error: Unable to contact slurm "
                         "controller (connect failure)")
                  .lasts);
  CHECK_FALSE(failure_of("squeue: error: something new").lasts);
  CHECK(failure_of("env: 'sbatch': No such file or directory", 127).lasts);
}

TEST_CASE("the variables of an outer job are taken away") {
  setenv("SLURM_CPUS_PER_TASK", "7", 1);
  setenv("SLURM_CONF", "/etc/slurm.conf", 1);
  const std::vector<std::string> words = without_slurm_variables();
  unsetenv("SLURM_CPUS_PER_TASK");
  unsetenv("SLURM_CONF");
  CHECK(words.front() == "env");
  CHECK(std::ranges::find(words, "SLURM_CPUS_PER_TASK") != words.end());
  CHECK(std::ranges::find(words, "SLURM_CONF") == words.end());
}

TEST_CASE("a submission says all that Slurm needs, and no secret") {
  const TemporaryDirectory folder;
  const std::string place = folder.path();
  const auto script = [&](const std::string& name, const std::string& text) {
    write_file_atomic(place + "/" + name, "#!/bin/sh\n" + text, false);
    chmod((place + "/" + name).c_str(), 0755);
  };
  script("sbatch", "printf '%s\\n' \"$@\" > " + place + "/said; echo 12\n");
  script("squeue", "echo '12|PD|Priority'\n");
  script("scancel", "printf '%s\\n' \"$@\" > " + place + "/cancelled\n");
  const std::string before = std::getenv("PATH");
  setenv("PATH", (place + ":" + before).c_str(), 1);
  {
    SlurmLauncherOptions options;
    options.address =
        parse_engine_address("slurm://gpu?max=2&time=90m&gres=gpu:1&cpus=4");
    options.study_id = "digits-1";
    options.agent = {"/opt/my dtune", "agent", "--job-key",
                     "/home/me/x/job.key"};
    options.logs = "/home/me/x";
    SlurmLauncher launcher(std::move(options));
    launcher.set_demand({2, {}});  // one job is there, as squeue says
    eventually([&] {
      launcher.ensure();
      return std::filesystem::exists(place + "/said");
    });
  }
  setenv("PATH", before.c_str(), 1);
  CHECK(read_file(place + "/said") ==
        "--parsable\n--job-name=dtune-digits-1\n--ntasks=1\n--no-requeue\n"
        "--signal=B:USR2@60\n--output=/home/me/x/slurm-%j.log\n"
        "--partition=gpu\n--time=90\n--cpus-per-task=4\n--gres=gpu:1\n"
        "--wrap=exec '/opt/my dtune' agent --job-key /home/me/x/job.key\n");
  CHECK(read_file(place + "/cancelled") == "-n\ndtune-digits-1\n");
}

namespace {

// Slurm's commands as scripts that note their calls; one agent is asked for.
class FakeSlurm {
 public:
  FakeSlurm() : path_(std::getenv("PATH")) {
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
    set("sbatch", "echo 12");
    set("squeue", ":");
    set("scancel", ":");
    SlurmLauncherOptions options;
    options.address = parse_engine_address("slurm://gpu?max=1&time=90m");
    options.study_id = "digits-1";
    options.agent = {"dtune", "agent"};
    options.logs = folder_.path();
    launcher_.emplace(std::move(options), clock_);
    launcher_->set_demand({1, {}});
  }
  ~FakeSlurm() {
    launcher_.reset();
    setenv("PATH", path_.c_str(), 1);
  }
  FakeSlurm(const FakeSlurm&) = delete;
  FakeSlurm& operator=(const FakeSlurm&) = delete;

  void set(const std::string& name, const std::string& body) const {
    const std::filesystem::path file = folder_.path() / name;
    write_file_atomic(
        file,
        "#!/bin/sh\necho x >>" + (file.string() + ".calls\n") + body + "\n",
        false);
    chmod(file.c_str(), 0755);
  }
  int calls(const std::string& name) const {
    const std::filesystem::path file = folder_.path() / (name + ".calls");
    if (!std::filesystem::exists(file)) return 0;
    const std::string lines = read_file(file);
    return static_cast<int>(std::ranges::count(lines, '\n'));
  }
  // Time passes, and the commands that are due by then end.
  void pass(Duration by = Duration(0)) {
    clock_.advance(by);
    CHECK(settle(*launcher_));
    for (const std::string& notice : launcher_->take_notices()) {
      said_ += notice + "\n";
    }
  }
  // Likewise; the queue is listed once more.
  void listing() {
    const int before = calls("squeue");
    pass(std::chrono::seconds(30));
    CHECK(calls("squeue") == before + 1);
  }
  bool says(const std::string& text) const { return times(text) > 0; }
  int times(const std::string& text) const {
    int count = 0;
    for (size_t at = 0; (at = said_.find(text, at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  }

 private:
  ManualClock clock_;
  const std::string path_;
  const TemporaryDirectory folder_;
  std::string said_;
  std::optional<SlurmLauncher> launcher_;
};

}  // namespace

TEST_CASE("a controller that does not answer for a minute changes nothing") {
  FakeSlurm slurm;
  slurm.pass();
  CHECK(slurm.says("slurm://gpu: asked for an agent: job 12"));
  slurm.set("squeue", "echo '12|PD|Priority'");
  slurm.listing();
  CHECK(slurm.says("slurm://gpu: job 12 is pending: Priority"));
  slurm.set("squeue",
            "echo 'slurm_load_jobs error: Unable to contact slurm controller "
            "(connect failure)' >&2; exit 1");
  slurm.listing();
  CHECK(slurm.says("(the controller does not answer; it is tried again)"));
  slurm.listing();
  slurm.listing();
  slurm.set("squeue", "echo '12|PD|Priority'");
  slurm.listing();
  CHECK(slurm.says("slurm://gpu: answers again"));
  CHECK(slurm.times("Unable to contact") == 1);
  CHECK(slurm.calls("sbatch") == 1);
}

TEST_CASE("one empty answer of squeue does not make a second job") {
  FakeSlurm slurm;
  slurm.pass();
  CHECK(slurm.says("slurm://gpu: asked for an agent: job 12"));
  slurm.set("squeue", "echo '12|PD|Priority'");
  slurm.listing();
  CHECK(slurm.says("slurm://gpu: job 12 is pending: Priority"));
  slurm.set("squeue", ":");
  slurm.listing();
  slurm.set("squeue", "echo '12|PD|Resources'");
  slurm.listing();
  CHECK(slurm.says("slurm://gpu: job 12 is pending: Resources"));
  CHECK(slurm.calls("sbatch") == 1);
}

TEST_CASE("a full quota of Slurm is said once and asked again") {
  FakeSlurm slurm;
  slurm.set("sbatch",
            "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; exit 1");
  for (int attempt = 1; attempt <= 4; ++attempt) {
    slurm.pass(std::chrono::seconds(61));
    CHECK(slurm.calls("sbatch") == attempt);
  }
  slurm.set("sbatch", "echo 12");
  slurm.pass(std::chrono::seconds(61));
  CHECK(slurm.says("slurm://gpu: asked for an agent: job 12"));
  CHECK(slurm.times("QOSMaxSubmitJobPerUserLimit") == 1);
}
