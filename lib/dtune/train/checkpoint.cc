#include "dtune/train/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/random.h"
#include "dtune/base/safetensors.h"
#include "dtune/base/text.h"
#include "dtune/train/trainer.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "checkpoint-1";

// FNV-1a over 8-byte words, with the high half folded in.
uint64_t hash_values(uint64_t hash, std::span<const float> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at,
                std::min(sizeof word, bytes.size() - at));
    hash = (hash ^ word) * 0x100000001b3ULL;
    hash ^= hash >> 32;
  }
  return hash;
}

json report_to_json(const StepReport& report) {
  return {{"step", report.step},
          {"metrics", report.metrics},
          {"seconds", report.seconds}};
}

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::data,
              fmt::format("{}: the checkpoint cannot be used: {} (the trial "
                          "has to start again)",
                          path.string(), what));
}

template <typename Number>
Number number(const SafetensorsFile& file, const char* key,
              const fs::path& path) {
  const std::string& text = file.text(key);
  const auto value = parse_number<Number>(text);
  if (!value) fail(path, fmt::format("its {} '{}' is not a number", key, text));
  return *value;
}

uint64_t hash_progress(int64_t position, int64_t updates,
                       const std::string& report) {
  return hash_text(fmt::format("{} {} {}", position, updates, report));
}

// What one changed bit would make another number of. Files of older versions
// have no such checksum.
void check_progress(const SafetensorsFile& file, const StepReport& report,
                    const TrainingState& state, const fs::path& path) {
  constexpr const char* kKey = "progress_checksum";
  const bool checked = file.metadata().contains(kKey);
  const bool damaged =
      checked &&
      number<uint64_t>(file, kKey, path) !=
          hash_progress(state.position, state.updates, file.text("report"));
  if (damaged || report.step < 1 ||
      report.step != number<int>(file, "step", path)) {
    fail(path, "what it says of its step is damaged");
  }
}

StepReport read_report(const SafetensorsFile& file, const fs::path& path) {
  try {
    const json value = parse_json(file.text("report"));
    StepReport report;
    report.step = value.at("step").get<int>();
    report.metrics = value.at("metrics").get<std::map<std::string, double>>();
    report.seconds = value.at("seconds").get<double>();
    return report;
  } catch (const json::exception&) {
    fail(path, "its report cannot be read");
  }
}

void check_owner(const SafetensorsFile& file, const CheckpointOwner& owner,
                 const TrainingState& state, const fs::path& path) {
  if (file.text("dtune_format") != kFormat) {
    fail(path, fmt::format("it is of format '{}', not '{}'",
                           file.text("dtune_format"), kFormat));
  }
  // The seed distinguishes trials; the final training of a trial has its seed
  // and goes on from its checkpoint.
  if (file.text("study") != owner.study_id ||
      number<uint64_t>(file, "seed", path) != owner.seed) {
    fail(path, fmt::format("it belongs to trial {} of study '{}'",
                           file.text("trial"), file.text("study")));
  }
  if (number<uint64_t>(file, "architecture", path) != state.architecture) {
    fail(path,
         "it is of another model, another size of images or another "
         "precision");
  }
  if (number<int64_t>(file, "samples", path) != state.samples) {
    fail(path, fmt::format("it was trained on {} samples, not {}",
                           file.text("samples"), state.samples));
  }
}

// The values of every tensor, in place in the file; nothing is copied before
// all of them have been checked.
std::vector<std::span<const float>> checked_values(
    const SafetensorsFile& file, const std::vector<NamedTensor>& tensors,
    const fs::path& path) {
  std::vector<std::span<const float>> values;
  uint64_t checksum = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::vector<int64_t> shape = {tensor.values.numel()};
    values.push_back(file.floats(tensor.name, shape));
    checksum = hash_values(checksum, values.back());
  }
  if (number<uint64_t>(file, "checksum", path) != checksum) {
    fail(path, "its checksum is wrong: it is damaged");
  }
  return values;
}

}  // namespace

void append_average(WeightAverage* average, std::vector<NamedTensor>& tensors) {
  if (average == nullptr) return;
  tensors.push_back({"average_weights", average->network().weights()});
  tensors.push_back({"average_buffers", average->network().buffers()});
}

TrainingState state_of(Trainer& trainer) {
  TrainingState state;
  state.tensors = {{"weights", trainer.network().weights()},
                   {"buffers", trainer.network().buffers()}};
  for (const Optimizer::State& values : trainer.optimizer().state()) {
    state.tensors.push_back({values.name, values.values});
  }
  append_average(trainer.average(), state.tensors);
  state.architecture = trainer.architecture();
  state.samples = trainer.whole_count();
  state.position = trainer.position();
  state.updates = trainer.optimizer().updates();
  return state;
}

void write_checkpoint(const fs::path& path, const CheckpointOwner& owner,
                      Attempt attempt, const StepReport& report,
                      const TrainingState& state) {
  std::vector<NamedTensor> tensors = state.tensors;
  std::vector<FloatTensor> pieces;
  uint64_t checksum = 0;
  for (NamedTensor& tensor : tensors) {
    tensor.values = tensor.values.to(at::kCPU);  // itself where it is there
    const std::span<const float> values(
        tensor.values.data_ptr<float>(),
        static_cast<size_t>(tensor.values.numel()));
    checksum = hash_values(checksum, values);
    pieces.push_back({tensor.name, {tensor.values.numel()}, values});
  }
  const std::string said = json_text(report_to_json(report));
  const TextMap metadata = {
      {"dtune_format", kFormat},
      {"study", owner.study_id},
      {"trial", std::to_string(owner.trial)},
      {"attempt", std::to_string(attempt)},
      {"seed", std::to_string(owner.seed)},
      {"architecture", std::to_string(state.architecture)},
      {"samples", std::to_string(state.samples)},
      {"step", std::to_string(report.step)},
      {"position", std::to_string(state.position)},
      {"updates", std::to_string(state.updates)},
      {"report", said},
      {"progress_checksum",
       std::to_string(hash_progress(state.position, state.updates, said))},
      {"checksum", std::to_string(checksum)}};
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  // A step that costs less than a second is not worth waiting for the disk: it
  // is trained again where the machine loses power.
  constexpr double kWorthSyncing = 1;  // s
  write_safetensors(path, pieces, metadata,
                    /*durable=*/report.seconds >= kWorthSyncing);
}

StepReport load_checkpoint(const fs::path& path, const CheckpointOwner& owner,
                           TrainingState& state) {
  const SafetensorsFile file(path);
  check_owner(file, owner, state, path);
  const auto values = checked_values(file, state.tensors, path);
  TrainingState loaded;
  loaded.position = number<int64_t>(file, "position", path);
  loaded.updates = number<int64_t>(file, "updates", path);
  StepReport report = read_report(file, path);
  check_progress(file, report, loaded, path);
  for (size_t i = 0; i < values.size(); ++i) {
    const at::Tensor& tensor = state.tensors[i].values;
    const at::Tensor host = at::empty({tensor.numel()}, at::kFloat);
    std::ranges::copy(values[i], host.data_ptr<float>());
    tensor.copy_(host);
  }
  state.position = loaded.position;
  state.updates = loaded.updates;
  return report;
}

StepReport load_checkpoint(const fs::path& path, const CheckpointOwner& owner,
                           Trainer& trainer) {
  TrainingState state = state_of(trainer);
  StepReport report = load_checkpoint(path, owner, state);
  trainer.set_position(state.position);
  trainer.optimizer().set_updates(state.updates);
  return report;
}

}  // namespace dtune
