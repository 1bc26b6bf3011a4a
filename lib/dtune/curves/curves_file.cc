#include "dtune/curves/curves_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/text.h"
#include "dtune/data/npz_array.h"
#include "dtune/data/source_error.h"
#include "dtune/data/zip_archive.h"

namespace dtune {
namespace {

constexpr const char* kValues = "val_accuracy_";
constexpr uint64_t kMostTasks = 100'000;
constexpr const char* kRepeats = "repeats_";
constexpr size_t kSettingSize = 4;
constexpr size_t kTrainingSize = 3;

bool has(const ZipArchive& archive, const std::string& name) {
  return archive.has(name + ".npy");
}

NpzArray require(ZipArchive& archive, const std::string& name) {
  if (has(archive, name)) return read_npz_array(archive, name);
  std::vector<std::string> names = archive.names();
  if (names.size() > 8) names.resize(8);
  fail_data(archive.where(), fmt::format("has no member {} (it holds: {})",
                                         name, fmt::join(names, ", ")));
}

std::string shape_of(const NpzArray& array) {
  return fmt::format("[{}]", fmt::join(array.header.shape, ", "));
}

std::vector<double> numbers(const NpzArray& array) {
  // The bytes, the numbers and the floats that are kept.
  check_fits_memory(array.where, array.header.items * 20);
  return npy_to_double(array.header, array.bytes, array.where);
}

// What values an axis may have.
struct AxisRange {
  double low;  // its least value may be this
  double high;
  const char* what;
};

std::vector<double> read_axis(ZipArchive& archive, const std::string& name,
                              const AxisRange& range) {
  const NpzArray array = require(archive, name);
  if (array.header.shape.size() != 1 || array.header.items == 0) {
    fail_data(array.where, fmt::format("has the shape {}, expected an axis of "
                                       "at least one value",
                                       shape_of(array)));
  }
  std::vector<double> axis = numbers(array);
  for (size_t i = 0; i < axis.size(); ++i) {
    if (!(axis[i] >= range.low && axis[i] <= range.high)) {
      fail_data(array.where,
                fmt::format("holds {}, expected {}", axis[i], range.what));
    }
    if (i > 0 && axis[i] <= axis[i - 1]) {
      fail_data(array.where, fmt::format("does not ascend: {} follows {}",
                                         axis[i], axis[i - 1]));
    }
  }
  return axis;
}

std::vector<double> read_log_axis(ZipArchive& archive,
                                  const std::string& name) {
  std::vector<double> axis =
      read_axis(archive, name,
                {std::numeric_limits<double>::min(),
                 std::numeric_limits<double>::max(), "positive numbers"});
  for (double& value : axis) value = std::log10(value);
  return axis;
}

// Empty where the file has no such member.
std::vector<int> read_epochs(ZipArchive& archive) {
  std::vector<int> epochs;
  if (!has(archive, "epoch")) return epochs;
  for (const double epoch :
       read_axis(archive, "epoch", {1, 1e9, "epochs that count from 1"})) {
    if (epoch != std::floor(epoch)) {
      fail_data(archive.where().string() + ": epoch",
                fmt::format("holds {}, expected whole epochs", epoch));
    }
    epochs.push_back(static_cast<int>(epoch));
  }
  return epochs;
}

std::vector<std::string> tasks_by_member(const ZipArchive& archive) {
  std::vector<std::string> tasks;
  for (const std::string& name : archive.names()) {
    if (!name.starts_with(kValues) || !name.ends_with(".npy")) continue;
    const size_t start = std::string(kValues).size();
    tasks.push_back(name.substr(start, name.size() - start - 4));
  }
  return tasks;
}

std::vector<std::string> read_tasks(ZipArchive& archive) {
  if (!has(archive, "tasks")) {
    std::vector<std::string> tasks = tasks_by_member(archive);
    if (tasks.empty()) {
      fail_data(archive.where(), "holds no curves (no val_accuracy_<task>)");
    }
    return tasks;
  }
  const NpzArray array = read_npz_array(archive, "tasks");
  const uint64_t count = array.header.items;
  if (array.header.shape.size() != 1 || count == 0 || count > kMostTasks) {
    fail_data(array.where, fmt::format("has the shape {}, expected a list of "
                                       "tasks",
                                       shape_of(array)));
  }
  std::vector<std::string> tasks =
      npy_to_words(array.header, array.bytes, array.where);
  std::set<std::string> seen;
  for (const std::string& task : tasks) {
    if (task.empty() || !seen.insert(task).second) {
      fail_data(array.where,
                fmt::format("names the task '{}' {}", task,
                            task.empty() ? "(an empty name)" : "twice"));
    }
  }
  return tasks;
}

// How many settings [s, a, b, c, e] has; [a, b, c, e] is one. Sets the epochs
// where the file does not say them.
size_t check_shape(const NpzArray& array, RecordedCurves& axes) {
  std::vector<int64_t> shape = array.header.shape;
  int64_t settings = 1;
  if (shape.size() == 5) {
    settings = shape.front();
    shape.erase(shape.begin());
  }
  if (axes.epochs.empty() && shape.size() == 4) {
    const int64_t most = std::min<int64_t>(shape[3], 1'000'000);
    for (int64_t e = 1; e <= most; ++e) axes.epochs.push_back(int(e));
  }
  const std::vector<size_t> expected = {
      axes.log10_lr.size(), axes.log10_l2.size(), axes.dropout.size(),
      axes.epochs.size()};
  const bool fits =
      std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(),
                 [](int64_t a, size_t b) { return uint64_t(a) == b; });
  if (!fits || settings < 1 || axes.epochs.empty()) {
    fail_data(array.where,
              fmt::format("has the shape {}, expected [{}], with the number of "
                          "settings before it or without",
                          shape_of(array), fmt::join(expected, ", ")));
  }
  return static_cast<size_t>(settings);
}

// In [0, 1]; uint16 stands for 65535ths.
std::vector<double> read_values(const NpzArray& array) {
  const bool counted = array.header.kind == 'u' && array.header.item_bytes == 2;
  if (!counted && array.header.kind != 'f') {
    fail_data(array.where,
              "holds neither float16, float32, float64 nor uint16 "
              "(65535ths)");
  }
  std::vector<double> values = numbers(array);
  for (size_t i = 0; i < values.size(); ++i) {
    if (counted) values[i] /= 65535;
    if (!(values[i] >= 0 && values[i] <= 1)) {
      fail_data(array.where,
                fmt::format("holds {} (value {} of {}), outside of 0 to 1",
                            values[i], i, values.size()));
    }
  }
  return values;
}

std::optional<double> known(double number) {
  return std::isnan(number) ? std::nullopt : std::optional(number);
}

std::vector<CubeContext> read_contexts(ZipArchive& archive,
                                       const std::string& task,
                                       size_t settings) {
  std::vector<CubeContext> contexts(settings);
  const std::string name = "setting_" + task;
  if (!has(archive, name)) return contexts;
  const NpzArray array = read_npz_array(archive, name);
  const bool ends_in_four = !array.header.shape.empty() &&
                            array.header.shape.back() == kSettingSize &&
                            array.header.shape.size() <= 2;
  if (!ends_in_four || array.header.items != settings * kSettingSize) {
    fail_data(array.where,
              fmt::format("has the shape {}, expected [{}, {}]",
                          shape_of(array), settings, kSettingSize));
  }
  const std::vector<double> all = numbers(array);
  for (const double number : all) {
    if (std::isinf(number) || number < 0) {
      fail_data(array.where, fmt::format("holds {}, expected sizes (NaN where "
                                         "one is not known)",
                                         number));
    }
  }
  for (size_t i = 0; i < settings; ++i) {
    const double* row = &all[i * kSettingSize];
    contexts[i] = {known(row[0]), known(row[1]), known(row[2]), known(row[3])};
  }
  return contexts;
}

void read_trainings(ZipArchive& archive, const std::string& task,
                    std::vector<CubeContext>& contexts) {
  const std::string name = "training_" + task;
  if (!has(archive, name)) return;
  const NpzArray array = read_npz_array(archive, name);
  if (array.header.items != contexts.size() * kTrainingSize) {
    fail_data(array.where,
              fmt::format("has the shape {}, expected [{}, {}]",
                          shape_of(array), contexts.size(), kTrainingSize));
  }
  const std::vector<std::string> words =
      npy_to_words(array.header, array.bytes, array.where);
  for (size_t i = 0; i < contexts.size(); ++i) {
    contexts[i].optimizer = words[i * kTrainingSize];
    contexts[i].schedule = words[i * kTrainingSize + 1];
    const std::string& images = words[i * kTrainingSize + 2];
    if (images.empty()) continue;
    const auto number = parse_number<double>(images);
    if (!number || !(*number >= 0 && *number <= 1e12)) {
      fail_data(array.where, fmt::format("holds '{}', expected a number of "
                                         "training images",
                                         images));
    }
    contexts[i].images = *number;
  }
}

// The trainings behind `values`; empty where the file has none. Each has the
// settings one after the other, as `values` has.
std::vector<std::vector<double>> read_repeats(ZipArchive& archive,
                                              const std::string& task,
                                              const NpzArray& values) {
  const std::string name = kRepeats + task;
  if (!has(archive, name)) return {};
  const NpzArray array = read_npz_array(archive, name);
  const auto& shape = array.header.shape;
  const auto& expected = values.header.shape;
  if (shape.empty() || shape.front() < 1 ||
      !std::equal(shape.begin() + 1, shape.end(), expected.begin(),
                  expected.end())) {
    fail_data(array.where,
              fmt::format("has the shape {}, expected a number of repeats "
                          "before {}",
                          shape_of(array), shape_of(values)));
  }
  const std::vector<double> all = read_values(array);
  const size_t size = values.header.items;
  std::vector<std::vector<double>> repeats;
  for (size_t begin = 0; begin < all.size(); begin += size) {
    repeats.emplace_back(all.begin() + static_cast<long>(begin),
                         all.begin() + static_cast<long>(begin + size));
  }
  return repeats;
}

std::vector<float> floats_of(const std::vector<double>& all, size_t begin,
                             size_t size) {
  const auto part = std::span(all).subspan(begin, size);
  std::vector<float> floats;
  floats.reserve(size);
  for (const double value : part) floats.push_back(static_cast<float>(value));
  return floats;
}

void read_task(ZipArchive& archive, const std::string& task,
               RecordedCurves axes, std::vector<RecordedCurves>& out) {
  const NpzArray array = require(archive, kValues + task);
  const size_t settings = check_shape(array, axes);
  const std::vector<double> values = read_values(array);
  std::vector<CubeContext> contexts = read_contexts(archive, task, settings);
  read_trainings(archive, task, contexts);
  const auto repeats = read_repeats(archive, task, array);
  const size_t size = values.size() / settings;
  axes.task = task;
  for (size_t i = 0; i < settings; ++i) {
    RecordedCurves curves = axes;
    curves.context = contexts[i];
    curves.values = floats_of(values, i * size, size);
    for (const std::vector<double>& repeat : repeats) {
      curves.repeats.push_back(floats_of(repeat, i * size, size));
    }
    out.push_back(std::move(curves));
  }
}

}  // namespace

std::vector<RecordedCurves> read_curves(ZipArchive& archive) {
  RecordedCurves axes;
  axes.log10_lr = read_log_axis(archive, "learning_rate");
  axes.log10_l2 = read_log_axis(archive, "l2");
  axes.dropout =
      read_axis(archive, "dropout", {0, 1, "shares between 0 and 1"});
  axes.epochs = read_epochs(archive);
  std::vector<RecordedCurves> all;
  for (const std::string& task : read_tasks(archive)) {
    read_task(archive, task, axes, all);
  }
  return all;
}

std::vector<RecordedCurves> read_curves(const std::filesystem::path& path) {
  ZipArchive archive(path);
  return read_curves(archive);
}

}  // namespace dtune
