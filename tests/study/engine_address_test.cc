#include "dtune/study/engine_address.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

namespace {

const std::vector<std::string> kEngines = {"slurm", "k8s", "sagemaker"};
const std::vector<std::string> kKeys = {"max", "time", "gres"};

std::string engine_error(const std::string& text) {
  try {
    const EngineAddress address = parse_engine_address(text);
    check_engine(address, kEngines);
    check_engine_keys(address, kKeys);
    engine_number(address, "max", 1, 1, 100);
    engine_duration(address, "time", "1h");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an engine's address has a place and values") {
  const EngineAddress address =
      parse_engine_address("slurm://gpu?max=8&time=4h&gres=gpu:1");
  CHECK(address.engine == "slurm");
  CHECK(address.place == "gpu");
  CHECK(address.value("gres") == "gpu:1");
  CHECK(address.value("account").empty());
  CHECK(engine_number(address, "max", 1, 1, 100) == 8);
  CHECK(engine_number(address, "cpus", 3, 1, 100) == 3);
  CHECK(parse_engine_address("k8s://").place.empty());
  const EngineAddress role = parse_engine_address(
      "sagemaker://arn:aws:iam::123456789012:role/dtune?tag=a%26b%20c");
  CHECK(role.place == "arn:aws:iam::123456789012:role/dtune");
  CHECK(role.value("tag") == "a&b c");
}

TEST_CASE("what is wrong with an engine's address is said with a remedy") {
  CHECK(engine_error("slurm://gpu?max=8") == "");
  CHECK(engine_error("slrm://gpu") ==
        "'slrm://gpu': there is no engine 'slrm', did you mean 'slurm'? "
        "(slurm, k8s, sagemaker)");
  CHECK(engine_error("slurm://gpu?mx=8") ==
        "'slurm://gpu?mx=8': unknown key 'mx', did you mean 'max'? (slurm has "
        "max, time, gres)");
  CHECK(engine_error("slurm://gpu?max") ==
        "'slurm://gpu?max': 'max' is not KEY=VALUE (as in "
        "slurm://gpu?max=8&time=4h)");
  CHECK(engine_error("slurm://gpu?max=0") ==
        "'slurm://gpu?max=0': max is '0' (a number from 1 to 100)");
  CHECK(engine_error("slurm://gpu?max=8&max=9") ==
        "'slurm://gpu?max=8&max=9': has 'max' twice (keep one)");
  CHECK(engine_error("slurm://gpu?time=soon")
            .starts_with("'slurm://gpu?time=soon': time: "));
  CHECK(engine_error("slurm://gpu?") != "");
  CHECK(engine_error("slurm:gpu") != "");
  CHECK(engine_error("ssh://x").find("no engine 'ssh'") != std::string::npos);
}

TEST_CASE("an engine's address cannot bring a second line into a script") {
  CHECK(engine_error("slurm://gpu?gres=a%0Arm").find("control character") !=
        std::string::npos);
  CHECK(engine_error("slurm://gpu\n#SBATCH").find("control character") !=
        std::string::npos);
  CHECK(engine_error("slurm://gpu?gres=%zz").find("%25") != std::string::npos);
  CHECK(engine_error("slurm://gpu?gres=%2").find("%25") != std::string::npos);
}
