// Slurm's commands and words; with Slurm itself: tests/app/slurm_test.sh.
#include "dtune/cluster/slurm_launcher.h"

#include <algorithm>
#include <cstdlib>

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

TEST_CASE("what only the user can mend is told from what passes") {
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
