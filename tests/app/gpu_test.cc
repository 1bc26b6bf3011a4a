// What the program says of GPUs, on a machine whose driver is played by
// tests/cluster/fake_cuda_driver.cc.
#include <cstdlib>

#include "app/program.h"
#include "skip.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace dtune;  // NOLINT: a test

namespace {

// A place on a machine that has these GPUs, "" none.
struct GpuPlace : Workplace {
  explicit GpuPlace(const std::string& gpus) {
    environment["LD_LIBRARY_PATH"] = DTUNE_FAKE_CUDA_FOLDER;
    environment["FAKE_CUDA_NAMES"] = gpus;
    environment["FAKE_CUDA_VERSION"] = "12040";
    write("r.yaml",
          "data: { kind: synthetic, samples: 200 }\n"
          "train: { epochs: 1 }\n"
          "budget: { trials: 1 }\n"
          "final: false\n");
  }
};

bool for_cpu(const Workplace& place) {
  return contains(place.run({"plan", "r.yaml"}).out,
                  "this LibTorch is for the CPU");
}

}  // namespace

TEST_CASE("a GPU that LibTorch cannot use is reported, not ignored") {
  if (!kTrains) return skip(kNoTorch);
  const GpuPlace place("H100,A100");
  if (!for_cpu(place)) return;  // built with CUDA: the fake driver cannot train
  const Outcome plan = place.run({"plan", "r.yaml"});
  CHECK(plan.code == 0);
  CHECK(contains(plan.out, "on the CPU: there is a GPU, but this LibTorch"));
  const Outcome doctor = place.run({"doctor"});
  CHECK(contains(doctor.out, "not used: H100 (0), 80.0 GiB"));
  CHECK(contains(doctor.out, "not used: A100 (1), 80.0 GiB"));
  const Outcome run = place.run({"run", "r.yaml"});
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK(contains(run.err + run.out, "trials run on the CPU: there is a GPU"));
}

TEST_CASE("without a GPU nothing is said, but 'device: cuda' is refused") {
  if (!kTrains) return skip(kNoTorch);
  const GpuPlace place("");
  const Outcome plan = place.run({"plan", "r.yaml"});
  CHECK(plan.code == 0);
  CHECK_FALSE(contains(plan.out, "on the CPU"));
  for (const char* command : {"plan", "run"}) {
    for (const char* device : {"cuda", "cuda:1"}) {
      const Outcome refused = place.run(
          {command, "r.yaml", "--set", std::string("train.device=") + device});
      CHECK(refused.code == 2);
      CHECK(contains(refused.err, std::string("train.device: '") + device +
                                      "' is not there: this machine has no "
                                      "GPU"));
    }
  }
  CHECK(contains(place.run({"doctor"}).out, "none: trains on the CPU"));
}

TEST_CASE("a worker that cannot use its GPU says why in the agent's log") {
  if (!kTrains) return skip(kNoTorch);
  GpuPlace place("");
  place.environment["DTUNE_SLOT_DEVICE"] = "0";  // as an agent gives it
  // Of several slots the one that is up first gets the trial.
  const Outcome run = place.run({"run", "r.yaml", "--quiet", "--slots", "1"});
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK(
      contains(place.read("r.files/agent.log"), "slot 0: trains on the CPU: "));
}

// As ctest runs it; where the driver's GPU cannot be used it must not pass.
TEST_CASE("the script for GPUs says what is missing, and that it did not run") {
  if (!kTrains) return skip(kNoTorch);
  const GpuPlace place("H100");
  if (!for_cpu(place)) return;
  if (std::system("command -v python3 >/dev/null") != 0) return;
  const std::string binary = DTUNE_BINARY;
  const std::string build = binary.substr(0, binary.rfind("/bin/"));
  std::string command;
  for (const auto& [name, value] : place.environment) {
    command += name + "='" + value + "' ";
  }
  command += DTUNE_SOURCE_DIR "/tests/gpu/run --build " + build + " --json " +
             (place / "table.json").string() + " >" + (place / "out").string() +
             " 2>&1";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 77);
  const std::string out = place.read("out");
  CAPTURE(out);
  CHECK(contains(out, "skipped: there is no GPU that this dtune can use"));
  CHECK(contains(out, "not used: H100 (0), 80.0 GiB"));
  CHECK(contains(out, "this LibTorch is for the CPU (build with a CUDA"));
  CHECK_FALSE(place.has("table.json"));
}

TEST_CASE("an agent's devices are numbers and names of NVIDIA's") {
  const GpuPlace place("");
  const Outcome outcome = place.run(
      {"agent", "--connect", "tcp://127.0.0.1:9", "--devices", "gpu0"});
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err,
                 "--devices: 'gpu0' is not a device (use 0,1, or "
                 "GPU-..., MIG-..."));
}
