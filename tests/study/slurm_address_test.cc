#include "dtune/study/slurm_address.h"

#include <string>

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

std::string slurm_error(const std::string& text) {
  try {
    check_slurm_address(parse_engine_address(text));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a slurm address is turned into options of sbatch") {
  const EngineAddress address = parse_engine_address(
      "slurm://gpu?max=8&time=90s&gres=gpu:1&cpus=4&idle=1m");
  CHECK(slurm_max(address) == 8);
  CHECK(slurm_time(address) == std::chrono::seconds(90));
  CHECK(slurm_idle(address) == std::chrono::minutes(1));
  CHECK(slurm_poll(address) == std::chrono::seconds(30));
  const std::vector<std::string> words = {"--partition=gpu", "--time=2",
                                          "--cpus-per-task=4", "--gres=gpu:1"};
  CHECK(sbatch_options(address) == words);
  CHECK(sbatch_options(parse_engine_address("slurm://")).empty());
  CHECK(slurm_idle(parse_engine_address("slurm://")) ==
        std::chrono::minutes(2));
}

TEST_CASE("what slurm:// cannot have is refused with a remedy") {
  CHECK(slurm_error("slurm://gpu?max=8&time=4h") == "");
  CHECK(slurm_error("slurm://gpu?gress=1").find("did you mean 'gres'?") !=
        std::string::npos);
  CHECK(slurm_error("slurm://gpu?time=soon").find("'slurm://gpu?time=soon'") ==
        0);
  CHECK(slurm_error("slurm://gpu?max=0").find("max is '0'") !=
        std::string::npos);
}
