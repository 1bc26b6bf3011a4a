// Checkpoints that were changed in places: what is loaded is what was saved, or
// Error(data) and nothing has changed.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "edited.h"
#include <ATen/ATen.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/train/checkpoint.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

const CheckpointOwner kOwner{"fuzz", 3, 17};

TrainingState make_state(float value) {
  TrainingState state;
  state.tensors = {{"weights", at::full({40}, value)},
                   {"velocity", at::full({40}, value)}};
  state.architecture = 5;
  state.samples = 100;
  return state;
}

std::string make_checkpoint(const std::filesystem::path& path) {
  TrainingState state = make_state(2);
  state.position = 100;
  state.updates = 4;
  StepReport report;
  report.step = 1;
  report.metrics = {{"val_accuracy", 0.5}};
  write_checkpoint(path, kOwner, 1, report, state);
  return read_file(path);
}

bool holds(const TrainingState& state, float value) {
  for (const NamedTensor& tensor : state.tensors) {
    if (!(tensor.values == value).all().item<bool>()) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryDirectory folder;
  static const auto path = folder.path() / "checkpoint";
  static const std::string whole = make_checkpoint(path);
  const fuzz::Edited file(whole, {data, size});
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.bytes().data()),
             static_cast<std::streamsize>(file.bytes().size()));
  TrainingState state = make_state(1);
  try {
    const StepReport report = load_checkpoint(path, kOwner, state);
    if (report.step < 1 || !holds(state, 2)) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || !holds(state, 1)) std::abort();
  }
  return 0;
}
