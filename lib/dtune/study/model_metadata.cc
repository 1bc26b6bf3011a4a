#include "dtune/study/model_metadata.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

[[noreturn]] void fail_metadata(const SafetensorsFile& file,
                                const std::string& key,
                                const std::string& wanted) {
  throw Error(ErrorKind::data,
              fmt::format("{}: its metadata '{}' are not {} (the file is "
                          "damaged)",
                          file.name(), key, wanted));
}

// "1x28x28", as to_string(Shape) writes it.
Shape read_input_shape(const SafetensorsFile& file) {
  const std::string& text = file.text("input_shape");
  Shape shape;
  const char* at = text.data();
  const char* end = at + text.size();
  for (int* size : {&shape.channels, &shape.height, &shape.width}) {
    const auto [stop, error] = std::from_chars(at, end, *size);
    const bool last = size == &shape.width;
    const bool ends_well = last ? stop == end : stop != end && *stop == 'x';
    if (error != std::errc() || !ends_well || *size < 1) {
      fail_metadata(file, "input_shape", "three sizes");
    }
    at = stop + 1;
  }
  return shape;
}

std::vector<std::string> read_class_names(const SafetensorsFile& file) {
  const auto list = try_parse_json(file.text("class_names"));
  std::vector<std::string> names;
  if (list.is_array()) {
    for (const auto& name : list) {
      if (name.is_string()) names.push_back(name.get<std::string>());
    }
  }
  if (names.empty() || names.size() != list.size()) {
    fail_metadata(file, "class_names", "a list of names");
  }
  return names;
}

// One finite number a channel.
std::vector<float> read_channels(const SafetensorsFile& file,
                                 const std::string& key, int channels) {
  const auto list = try_parse_json(file.text(key));
  std::vector<float> values;
  if (list.is_array()) {
    for (const auto& value : list) {
      if (value.is_number()) values.push_back(value.get<float>());
    }
  }
  const bool valid =
      values.size() == static_cast<size_t>(channels) &&
      std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
  if (!valid) fail_metadata(file, key, fmt::format("{} numbers", channels));
  return values;
}

// Older files have none.
double read_threshold(const SafetensorsFile& file) {
  const auto found = file.metadata().find("threshold");
  if (found == file.metadata().end()) return 0.5;
  const std::string& text = found->second;
  const auto value = parse_number<double>(text);
  const bool valid = value && 0 < *value && *value < 1;
  if (!valid) fail_metadata(file, "threshold", "a probability");
  return *value;
}

}  // namespace

size_t ModelMetadata::answer(std::span<const double> probabilities) const {
  if (probabilities.size() == 2 && threshold != 0.5) {
    return probabilities[1] >= threshold ? 1 : 0;
  }
  return static_cast<size_t>(std::ranges::max_element(probabilities) -
                             probabilities.begin());
}

ModelMetadata read_model_metadata(const SafetensorsFile& file) {
  if (file.text("dtune_format") != kModelFormat) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: is of format '{}', but this dtune reads '{}' "
                    "(name the model file of a study, or use the "
                    "version of dtune that wrote it)",
                    file.name(), file.text("dtune_format"), kModelFormat));
  }
  ModelMetadata metadata;
  metadata.recipe = file.text("recipe");
  metadata.input = read_input_shape(file);
  metadata.class_names = read_class_names(file);
  metadata.mean = read_channels(file, "mean", metadata.input.channels);
  metadata.deviation =
      read_channels(file, "deviation", metadata.input.channels);
  if (std::ranges::any_of(metadata.deviation, [](float d) { return d <= 0; })) {
    fail_metadata(file, "deviation", "positive numbers");
  }
  metadata.threshold = read_threshold(file);
  return metadata;
}

}  // namespace dtune
