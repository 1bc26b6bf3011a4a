#include "dtune/cluster/gpus.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

// A variable of this process, for the driver, until the test ends.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Setting() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// A machine with these GPUs, and its driver.
struct Machine {
  explicit Machine(const std::string& names)
      : gpus("FAKE_CUDA_NAMES", names), version("FAKE_CUDA_VERSION", "12040") {
    places.driver = DTUNE_FAKE_CUDA_DRIVER;
    places.dev = folder.path() / "dev";
    places.proc = folder.path() / "proc";
    fs::create_directories(places.dev);
    if (!names.empty()) std::ofstream(places.dev / "nvidia3") << "";
  }

  Gpus find() const {
    return find_gpus([](const char* name) { return std::getenv(name); },
                     places);
  }

  void add_mig_instance(int gpu, int instance) const {
    fs::create_directories(places.proc / ("driver/nvidia/capabilities/gpu" +
                                          std::to_string(gpu) + "/mig/gi" +
                                          std::to_string(instance) + "/ci0"));
  }

  TemporaryDirectory folder;
  GpuPlaces places;
  Setting gpus;
  Setting version;
};

std::vector<std::string> ids(const Gpus& gpus) {
  std::vector<std::string> out;
  for (const Gpu& gpu : gpus.usable) out.push_back(gpu.id);
  return out;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("GPUs are numbered as CUDA does, whatever their device files are") {
  const Machine machine("H100,A100");  // its file is /dev/nvidia3
  const Gpus gpus = machine.find();
  CHECK(ids(gpus) == Ids{"0", "1"});
  CHECK(gpus.usable[1].name == "A100");
  CHECK(gpus.problem.empty());
  CHECK(gpus.cuda == 12040);
  CHECK(to_string(gpus.usable[0]) == "H100 (0), 80.0 GiB");
}

TEST_CASE("CUDA_VISIBLE_DEVICES chooses and orders them, by what it says") {
  const Machine machine("H100,A100,V100");
  {
    const Setting visible("CUDA_VISIBLE_DEVICES", "2,0");
    CHECK(ids(machine.find()) == Ids{"2", "0"});
    CHECK(machine.find().usable[0].name == "V100");
  }
  {
    const Setting visible("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-0");
    CHECK(ids(machine.find()) == Ids{"GPU-1", "GPU-0"});
  }
  {
    const Setting visible("CUDA_VISIBLE_DEVICES", "1,7,0");
    CHECK(ids(machine.find()) == Ids{"1"});  // up to what is not there
  }
  const Setting visible("CUDA_VISIBLE_DEVICES", "");
  const Gpus none = machine.find();
  CHECK(none.usable.empty());
  CHECK(contains(none.problem, "CUDA_VISIBLE_DEVICES='' shows none"));
}

TEST_CASE("each MIG instance that is named is one of its own") {
  const Machine machine("H100");
  {
    const Setting visible("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b");
    const Gpus gpus = machine.find();
    CHECK(ids(gpus) == Ids{"MIG-a", "MIG-b"});
    CHECK(gpus.usable[1].name == "H100 MIG 1g.10gb");
  }
  const Setting container("NVIDIA_VISIBLE_DEVICES", "MIG-c,MIG-d");
  CHECK(ids(machine.find()) == Ids{"MIG-c", "MIG-d"});
  // A container's numbers are those of its host.
  const Setting host("NVIDIA_VISIBLE_DEVICES", "5");
  CHECK(ids(machine.find()) == Ids{"0"});
}

TEST_CASE("MIG instances that CUDA does not show are reported") {
  const Machine machine("H100");
  machine.add_mig_instance(0, 1);
  CHECK(machine.find().problem.empty());
  machine.add_mig_instance(0, 2);
  const Gpus gpus = machine.find();
  CHECK(ids(gpus) == Ids{"0"});
  CHECK(contains(gpus.problem,
                 "2 MIG instances are here, of which CUDA shows "
                 "1 (name them in CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("GPUs that cannot be used are reported, others not") {
  const Machine none("");
  CHECK(none.find().usable.empty());
  CHECK(none.find().problem.empty());
  Machine machine("H100");
  {
    const Setting broken("FAKE_CUDA_INIT", "803");
    const Gpus gpus = machine.find();
    CHECK(gpus.usable.empty());
    CHECK(contains(gpus.problem, "combination (error 803; its library and"));
  }
  machine.places.driver = "libdtune-no-such-driver.so.1";
  CHECK(contains(machine.find().problem,
                 "not its driver's library libdtune-no-such-driver.so.1"));
}

TEST_CASE("a LibTorch that cannot use a GPU is named") {
  Gpus gpus;
  CHECK(why_unused(gpus, {}).empty());
  gpus.problem = "no driver";
  CHECK(why_unused(gpus, {true, 13000}) == "no driver");
  gpus = {{{"0", "H100", 0}}, "", 12040};
  CHECK(contains(why_unused(gpus, {}), "this LibTorch is for the CPU"));
  CHECK(contains(why_unused(gpus, {true, 13000}),
                 "for CUDA 12.4, too old for this LibTorch with CUDA 13.0"));
  CHECK(why_unused(gpus, {true, 12060}).empty());
  CHECK(why_unused(gpus, {true, 0}).empty());
}
