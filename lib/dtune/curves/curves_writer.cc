#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/curves/curves_file.h"
#include "dtune/data/npz_writer.h"

namespace dtune {
namespace {

// The settings of one task.
using Settings = std::vector<const RecordedCurves*>;

std::vector<std::string> tasks_in_order(
    const std::vector<RecordedCurves>& curves) {
  std::vector<std::string> tasks;
  for (const RecordedCurves& one : curves) {
    bool seen = false;
    for (const std::string& task : tasks) seen = seen || task == one.task;
    if (!seen) tasks.push_back(one.task);
  }
  return tasks;
}

Settings settings_of(const std::vector<RecordedCurves>& curves,
                     const std::string& task) {
  Settings settings;
  for (const RecordedCurves& one : curves) {
    if (one.task == task) settings.push_back(&one);
  }
  return settings;
}

void add_axes(const RecordedCurves& first, NpzWriter& file) {
  const auto powers = [](std::vector<double> axis) {
    for (double& value : axis) value = std::pow(10, value);
    return axis;
  };
  file.add("learning_rate", {first.log10_lr.size()},
           std::span<const double>(powers(first.log10_lr)));
  file.add("l2", {first.log10_l2.size()},
           std::span<const double>(powers(first.log10_l2)));
  file.add("dropout", {first.dropout.size()},
           std::span<const double>(first.dropout));
  const std::vector<int64_t> epochs(first.epochs.begin(), first.epochs.end());
  file.add("epoch", {epochs.size()}, std::span<const int64_t>(epochs));
}

// Left out where nothing is known.
void add_contexts(const std::string& task, const Settings& settings,
                  NpzWriter& file) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> numbers;
  bool any = false;
  for (const RecordedCurves* one : settings) {
    const CubeContext& context = one->context;
    for (const auto& number :
         {context.batch_size, context.width, context.momentum, context.depth}) {
      any = any || number.has_value();
      numbers.push_back(number.value_or(kUnknown));
    }
  }
  if (!any) return;
  file.add("setting_" + task, {settings.size(), 4},
           std::span<const double>(numbers));
}

void add_trainings(const std::string& task, const Settings& settings,
                   NpzWriter& file) {
  std::vector<std::string> words;
  bool any = false;
  for (const RecordedCurves* one : settings) {
    const CubeContext& context = one->context;
    words.push_back(context.optimizer);
    words.push_back(context.schedule);
    words.push_back(context.images ? fmt::format("{}", *context.images) : "");
    any = any || !context.optimizer.empty();
  }
  if (any) file.add("training_" + task, words);
}

// Settings of one task have the same number of repeats, or none is written.
void add_repeats(const std::string& task, const Settings& settings,
                 NpzWriter& file) {
  const RecordedCurves& first = *settings.front();
  const size_t repeats = first.repeats.size();
  for (const RecordedCurves* one : settings) {
    if (one->repeats.size() != repeats) return;
  }
  if (repeats == 0) return;
  std::vector<float> values;
  for (size_t r = 0; r < repeats; ++r) {
    for (const RecordedCurves* one : settings) {
      values.insert(values.end(), one->repeats[r].begin(),
                    one->repeats[r].end());
    }
  }
  file.add("repeats_" + task,
           {repeats, settings.size(), first.log10_lr.size(),
            first.log10_l2.size(), first.dropout.size(), first.epochs.size()},
           std::span<const float>(values));
}

void add_values(const std::string& task, const Settings& settings,
                NpzWriter& file) {
  const RecordedCurves& first = *settings.front();
  std::vector<float> values;
  for (const RecordedCurves* one : settings) {
    values.insert(values.end(), one->values.begin(), one->values.end());
  }
  file.add("val_accuracy_" + task,
           {settings.size(), first.log10_lr.size(), first.log10_l2.size(),
            first.dropout.size(), first.epochs.size()},
           std::span<const float>(values));
}

}  // namespace

void write_curves(const std::filesystem::path& path,
                  const std::vector<RecordedCurves>& curves) {
  DTUNE_CHECK(!curves.empty());
  const RecordedCurves& first = curves.front();
  for (const RecordedCurves& one : curves) {
    DTUNE_CHECK(one.log10_lr == first.log10_lr &&
                one.log10_l2 == first.log10_l2 &&
                one.dropout == first.dropout && one.epochs == first.epochs);
  }
  NpzWriter file;
  add_axes(first, file);
  const std::vector<std::string> tasks = tasks_in_order(curves);
  file.add("tasks", tasks);
  for (const std::string& task : tasks) {
    const Settings settings = settings_of(curves, task);
    add_contexts(task, settings, file);
    add_trainings(task, settings, file);
    add_values(task, settings, file);
    add_repeats(task, settings, file);
  }
  file.write(path);
}

}  // namespace dtune
