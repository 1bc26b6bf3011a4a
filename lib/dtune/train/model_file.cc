#include "dtune/train/model_file.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/study/model_metadata.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

template <typename Slice>
size_t elements(const Slice& slice) {
  return static_cast<size_t>(std::accumulate(
      slice.shape.begin(), slice.shape.end(), int64_t{1}, std::multiplies<>()));
}

template <typename Slice>
std::span<float> part_of(const at::Tensor& flat, const Slice& slice) {
  return {flat.data_ptr<float>() + slice.offset, elements(slice)};
}

std::string dump(const json& value) { return json_text(value); }

// The study's id is drawn by chance; two runs of a deterministic study leave
// the same bytes.
const std::string& study_of(const TrialAssignment& assignment) {
  const Recipe& recipe = assignment.recipe;
  return recipe.deterministic ? recipe.study : assignment.study_id;
}

TextMap metadata_of(const ModelCard& card) {
  const TrialAssignment& assignment = card.assignment;
  const bool both =
      assignment.recipe.final_training.data == FinalData::train_and_validation;
  TextMap metadata = {{"format", "pt"},
                      {"dtune_format", kModelFormat},
                      {"dtune_version", DTUNE_VERSION},
                      {"study", study_of(assignment)},
                      {"trial", std::to_string(assignment.trial)},
                      {"seed", std::to_string(assignment.seed)},
                      {"search_trial", std::to_string(assignment.origin)},
                      {"step", std::to_string(assignment.kept_step)},
                      {"chosen", assignment.chosen},
                      {"recipe", assignment.recipe_yaml},
                      {"input_shape", to_string(card.data.image_shape())},
                      {"class_names", dump(card.data.class_names())},
                      {"mean", dump(card.normalization.mean)},
                      {"deviation", dump(card.normalization.deviation)},
                      {"metrics", dump(card.metrics)},
                      {"trained_on", both ? "train+validation" : "train"}};
  if (card.threshold)
    metadata["threshold"] = fmt::format("{}", *card.threshold);
  return metadata;
}

[[noreturn]] void mismatch(const std::string& name, const std::string& what) {
  throw Error(
      ErrorKind::config,
      fmt::format("{}: {} (use the recipe beside the model)", name, what));
}

void check_fits(const SafetensorsFile& file, const ModelMetadata& model,
                const PreparedData& data) {
  if (model.input != data.image_shape()) {
    mismatch(
        file.name(),
        fmt::format("was trained on images of {}, but the data's are {}",
                    to_string(model.input), to_string(data.image_shape())));
  }
  // As written: what is no UTF-8 was replaced.
  if (file.text("class_names") != dump(data.class_names())) {
    mismatch(file.name(), "was trained on other classes than the data's");
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

void load_weights(const SafetensorsFile& file, Network& network) {
  const size_t known =
      load_slices(file, network.parameter_slices(), network.weights()) +
      load_slices(file, network.buffer_slices(), network.buffers());
  if (known != file.header().tensors.size()) {
    mismatch(file.name(),
             fmt::format("holds {} tensors, but the recipe's model has {}",
                         file.header().tensors.size(), known));
  }
}

ModelMetadata load_model(const fs::path& path, const PreparedData& data,
                         Network& network) {
  const SafetensorsFile file(path);
  ModelMetadata model = read_model_metadata(file);
  check_fits(file, model, data);
  load_weights(file, network);
  return model;
}

}  // namespace dtune
