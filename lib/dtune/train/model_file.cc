#include "dtune/train/model_file.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModelFormat = "model-1";

template <typename Slice>
size_t elements(const Slice& slice) {
  return static_cast<size_t>(std::accumulate(
      slice.shape.begin(), slice.shape.end(), int64_t{1}, std::multiplies<>()));
}

template <typename Slice>
std::span<float> part_of(const at::Tensor& flat, const Slice& slice) {
  return {flat.data_ptr<float>() + slice.offset, elements(slice)};
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

TextMap metadata_of(const ModelCard& card) {
  const TrialAssignment& assignment = card.assignment;
  const bool both =
      assignment.recipe.final_training.data == FinalData::train_and_validation;
  return {{"format", "pt"},
          {"dtune_format", kModelFormat},
          {"dtune_version", DTUNE_VERSION},
          {"study", assignment.study_id},
          {"trial", std::to_string(assignment.trial)},
          {"seed", std::to_string(assignment.seed)},
          {"recipe", assignment.recipe_yaml},
          {"input_shape", to_string(card.data.image_shape())},
          {"class_names", dump(card.data.class_names())},
          {"mean", dump(card.normalization.mean)},
          {"deviation", dump(card.normalization.deviation)},
          {"metrics", dump(card.metrics)},
          {"trained_on", both ? "train+validation" : "train"}};
}

[[noreturn]] void mismatch(const fs::path& path, const std::string& what) {
  throw Error(ErrorKind::config,
              fmt::format("{}: {} (use the recipe beside the model)",
                          path.string(), what));
}

// A list of one positive or non-negative number a channel.
std::vector<float> read_channels(const SafetensorsFile& file,
                                 const std::string& key, size_t channels,
                                 const fs::path& path) {
  const json list = json::parse(file.text(key), nullptr, false);
  std::vector<float> values;
  if (list.is_array()) {
    for (const json& value : list) {
      if (value.is_number()) values.push_back(value.get<float>());
    }
  }
  const bool valid = values.size() == channels &&
                     std::all_of(values.begin(), values.end(),
                                 [](float v) { return std::isfinite(v); });
  if (!valid) {
    throw Error(ErrorKind::data,
                fmt::format("{}: its metadata '{}' are not {} numbers (the "
                            "file is damaged)",
                            path.string(), key, channels));
  }
  return values;
}

void check_fits(const SafetensorsFile& file, const PreparedData& data,
                const fs::path& path) {
  const std::string shape = to_string(data.image_shape());
  if (file.text("input_shape") != shape) {
    mismatch(path, fmt::format("was trained on images of {}, but the data's "
                               "are {}",
                               file.text("input_shape"), shape));
  }
  if (file.text("class_names") != dump(data.class_names())) {
    mismatch(path, "was trained on other classes than the data's");
  }
}

// Copies every slice's tensor into `flat`, wherever that lives.
template <typename Slice>
size_t load_slices(const SafetensorsFile& file,
                   const std::vector<Slice>& slices, at::Tensor& flat) {
  const at::Tensor host = at::empty(flat.sizes(), at::kFloat);
  for (const Slice& slice : slices) {
    std::ranges::copy(file.floats(slice.name, slice.shape),
                      part_of(host, slice).begin());
  }
  flat.copy_(host);
  return slices.size();
}

}  // namespace

void write_model(const fs::path& path, const ModelCard& card,
                 Network& network) {
  const at::Tensor weights = network.weights().to(at::kCPU);
  const at::Tensor buffers = network.buffers().to(at::kCPU);
  std::vector<FloatTensor> tensors;
  for (const ParameterSlice& slice : network.parameter_slices()) {
    tensors.push_back({slice.name, slice.shape, part_of(weights, slice)});
  }
  for (const BufferSlice& slice : network.buffer_slices()) {
    tensors.push_back({slice.name, slice.shape, part_of(buffers, slice)});
  }
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  fs::path recipe = path;
  write_file_atomic(recipe.replace_extension(".yaml"),
                    card.assignment.recipe_yaml, /*durable=*/true);
  write_safetensors(path, tensors, metadata_of(card), /*durable=*/true);
}

Normalization load_model(const fs::path& path, const PreparedData& data,
                         Network& network) {
  const SafetensorsFile file(path);
  if (file.text("dtune_format") != kModelFormat) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: is of format '{}', but this dtune reads '{}' "
                    "(name the model file of a study, or use the "
                    "version of dtune that wrote it)",
                    path.string(), file.text("dtune_format"), kModelFormat));
  }
  check_fits(file, data, path);
  const size_t known =
      load_slices(file, network.parameter_slices(), network.weights()) +
      load_slices(file, network.buffer_slices(), network.buffers());
  if (known != file.header().tensors.size()) {
    mismatch(path, fmt::format("holds {} tensors, but the recipe's model has "
                               "{}",
                               file.header().tensors.size(), known));
  }
  const auto channels = static_cast<size_t>(data.image_shape().channels);
  return {read_channels(file, "mean", channels, path),
          read_channels(file, "deviation", channels, path)};
}

}  // namespace dtune
