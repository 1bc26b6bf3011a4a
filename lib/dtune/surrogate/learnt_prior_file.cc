// The file of a learnt prior: safetensors,
//   log10_lr [a], log10_l2 [b], dropout [c], time [e]   F64
//   mean [a b c e]                                      F32
//   basis [components, a b c e]                         F16
//   coefficients [samples, components]                  F32
//   contexts [samples, 4]                               F32
//   task [samples]                                      F32: index of `tasks`
//   deviations [samples]                                F32, of trainings; 0:
//                                                       not known, as in files
//                                                       that do not have it
// and metadata format, version, provenance, tasks (one a line), checksum
// (64-bit FNV-1a of the data, in hexadecimal), warp (kWarpStrength of the map
// that the cubes were seen through).

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/base/safetensors.h"
#include "dtune/surrogate/correction.h"
#include "dtune/surrogate/half.h"
#include "dtune/surrogate/learnt_prior.h"
#include "dtune/surrogate/warp.h"

namespace dtune {
namespace {

constexpr const char* kPriorFormat = "dtune learnt prior";
constexpr const char* kVersion = "1";

std::string warp_text() { return fmt::format("{}", kWarpStrength); }

[[noreturn]] void fail_prior(const std::string& name, const std::string& what) {
  throw Error(
      ErrorKind::data,
      fmt::format("{}: {} (make it again: dtune surrogate train)", name, what));
}

void check_head(const SafetensorsFile& file) {
  const TextMap& head = file.metadata();
  if (!head.contains("format") || head.at("format") != kPriorFormat) {
    fail_prior(file.name(), "is not a learnt prior of dtune");
  }
  if (file.text("version") != kVersion) {
    fail_prior(file.name(),
               fmt::format("is of version '{}', but this dtune reads {}",
                           file.text("version"), kVersion));
  }
  if (file.text("warp") != warp_text()) {
    fail_prior(file.name(),
               fmt::format("was learnt through another map: warp {}, "
                           "but this dtune has {}",
                           file.text("warp"), warp_text()));
  }
  const std::span<const std::byte> data = file.data();
  const uint64_t sum =
      hash_text({reinterpret_cast<const char*>(data.data()), data.size()});
  if (file.text("checksum") != fmt::format("{:016x}", sum)) {
    fail_prior(file.name(), "its checksum is wrong: the file is damaged");
  }
}

template <typename T>
bool all_finite(const std::vector<T>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](T value) { return std::isfinite(value); });
}

std::vector<double> read_axis(const SafetensorsFile& file,
                              const std::string& name) {
  const std::vector<int64_t> shape = file.shape(name, 1);
  const std::span<const double> values = file.doubles(name, shape);
  std::vector<double> axis(values.begin(), values.end());
  const bool ascends = std::adjacent_find(axis.begin(), axis.end(),
                                          std::greater_equal<>()) == axis.end();
  if (axis.size() < 2 || !all_finite(axis) || !ascends) {
    fail_prior(
        file.name(),
        fmt::format("its axis '{}' is not two numbers or more that ascend",
                    name));
  }
  return axis;
}

CubeAxes read_axes(const SafetensorsFile& file) {
  CubeAxes axes = {read_axis(file, "log10_lr"), read_axis(file, "log10_l2"),
                   read_axis(file, "dropout"), read_axis(file, "time")};
  const bool shares = axes.time.front() > 0 && axes.time.back() == 1;
  if (!shares || axes.time.size() != size_t{kGridFrames}) {
    fail_prior(
        file.name(),
        fmt::format("its times are not {} shares of a training", kGridFrames));
  }
  return axes;
}

std::vector<float> read_floats(const SafetensorsFile& file,
                               const std::string& name,
                               std::span<const int64_t> shape) {
  const std::span<const float> values = file.floats(name, shape);
  std::vector<float> result(values.begin(), values.end());
  if (!all_finite(result)) {
    fail_prior(file.name(),
               fmt::format("'{}' holds a number that is not finite", name));
  }
  return result;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines = {""};
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

std::vector<std::string> read_tasks(const SafetensorsFile& file,
                                    int64_t samples) {
  const std::vector<std::string> names = split_lines(file.text("tasks"));
  const int64_t shape[] = {samples};
  std::vector<std::string> tasks;
  for (const float index : file.floats("task", shape)) {
    if (!(index >= 0 && index < static_cast<float>(names.size()))) {
      fail_prior(file.name(), "a sample is of a task without a name");
    }
    tasks.push_back(names[static_cast<size_t>(index)]);
  }
  return tasks;
}

std::vector<float> read_deviations(const SafetensorsFile& file,
                                   int64_t samples) {
  constexpr const char* kName = "deviations";
  if (!file.header().tensors.contains(kName)) {
    return std::vector<float>(static_cast<size_t>(samples), 0.0F);
  }
  return read_floats(file, kName, {&samples, 1});
}

template <typename T>
RawTensor tensor(const char* name, const char* dtype,
                 std::vector<int64_t> shape, const std::vector<T>& values) {
  return {name, dtype, std::move(shape), std::as_bytes(std::span(values))};
}

// Distinct names in the order of their first sample, and each sample's.
struct TaskTable {
  std::string names;
  std::vector<float> index;
};

TaskTable table_of(const std::vector<std::string>& tasks) {
  TaskTable table;
  std::vector<std::string> names;
  for (const std::string& task : tasks) {
    if (task.find('\n') != std::string::npos) {
      throw Error(ErrorKind::data,
                  fmt::format("task '{}': its name has more than one line "
                              "(rename it)",
                              task));
    }
    const auto found = std::find(names.begin(), names.end(), task);
    table.index.push_back(static_cast<float>(found - names.begin()));
    if (found == names.end()) names.push_back(task);
  }
  for (const std::string& name : names) {
    table.names += (table.names.empty() ? "" : "\n") + name;
  }
  return table;
}

std::string checksum_of(std::span<const RawTensor> tensors) {
  std::string all;
  for (const RawTensor& one : tensors) {
    all.append(reinterpret_cast<const char*>(one.bytes.data()),
               one.bytes.size());
  }
  return fmt::format("{:016x}", hash_text(all));
}

}  // namespace

LearntPrior LearntPrior::read(const SafetensorsFile& file) {
  check_head(file);
  LearntPrior prior;
  prior.axes_ = read_axes(file);
  const std::vector<int64_t> shape = file.shape("coefficients", 2);
  const int64_t samples = shape[0];
  const int64_t components = shape[1];
  if (samples < 1 || components < 1) {
    fail_prior(file.name(), "it holds no sample");
  }
  const auto size = static_cast<int64_t>(prior.axes_.size());
  const int64_t mean_shape[] = {size};
  const int64_t basis_shape[] = {components, size};
  const int64_t context_shape[] = {samples, kContextSize};
  prior.components_ = static_cast<size_t>(components);
  prior.mean_ = read_floats(file, "mean", mean_shape);
  prior.coefficients_ = read_floats(file, "coefficients", shape);
  prior.contexts_ = read_floats(file, "contexts", context_shape);
  prior.tasks_ = read_tasks(file, samples);
  prior.deviations_ = read_deviations(file, samples);
  for (const uint16_t half : file.halves("basis", basis_shape)) {
    prior.basis_.push_back(float_from_half(half));
  }
  if (!all_finite(prior.basis_)) {
    fail_prior(file.name(), "'basis' holds a number that is not finite");
  }
  return prior;
}

LearntPrior LearntPrior::load(const std::filesystem::path& path) {
  return read(SafetensorsFile(path));
}

LearntPrior LearntPrior::load(std::span<const std::byte> bytes,
                              const std::string& name) {
  return read(SafetensorsFile(bytes, name));
}

void LearntPrior::save(const std::filesystem::path& path,
                       const std::string& provenance) const {
  const auto size = static_cast<int64_t>(axes_.size());
  const auto samples = static_cast<int64_t>(tasks_.size());
  const auto components = static_cast<int64_t>(components_);
  std::vector<uint16_t> halves;
  for (const float value : basis_) halves.push_back(half_from_float(value));
  const TaskTable table = table_of(tasks_);
  const auto length = [](const std::vector<double>& axis) {
    return std::vector<int64_t>{static_cast<int64_t>(axis.size())};
  };
  // The widest types first: every tensor is aligned.
  const RawTensor tensors[] = {
      tensor("log10_lr", "F64", length(axes_.log10_lr), axes_.log10_lr),
      tensor("log10_l2", "F64", length(axes_.log10_l2), axes_.log10_l2),
      tensor("dropout", "F64", length(axes_.dropout), axes_.dropout),
      tensor("time", "F64", length(axes_.time), axes_.time),
      tensor("mean", "F32", {size}, mean_),
      tensor("coefficients", "F32", {samples, components}, coefficients_),
      tensor("contexts", "F32", {samples, kContextSize}, contexts_),
      tensor("task", "F32", {samples}, table.index),
      tensor("deviations", "F32", {samples}, deviations_),
      tensor("basis", "F16", {components, size}, halves)};
  const TextMap metadata = {
      {"format", kPriorFormat},   {"version", kVersion},
      {"provenance", provenance}, {"tasks", table.names},
      {"warp", warp_text()},      {"checksum", checksum_of(tensors)}};
  write_raw_safetensors(path, tensors, metadata, false);
}

}  // namespace dtune
