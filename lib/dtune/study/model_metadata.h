// What a model file says of itself: enough to use the model without the study,
// the data or the recipe's file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/safetensors.h"
#include "dtune/study/layers.h"

namespace dtune {

// Metadata keys of a model file (train/model_file.h writes them); values are
// text or JSON:
//   format          "pt": how tensors are laid out
//   dtune_format    "model-1"
//   dtune_version   of the program that wrote it
//   study, trial, seed
//   search_trial    the trial of the search whose point this is
//   step            of the training, after which the model was kept
//   chosen          why that trial and that step, one sentence
//   recipe          YAML, as resolved; the model's layers are in it
//   input_shape     "1x28x28": channels, height, width
//   class_names     JSON list
//   mean, deviation JSON lists, one number a channel: of pixels in [0, 1]
//   metrics         JSON object
//   threshold       two classes: the probability from which on the second one is
//                   the answer; without it 0.5
//   trained_on      "train" or "train+validation"
inline constexpr const char* kModelFormat = "model-1";

struct ModelMetadata {
  std::string recipe;  // YAML
  Shape input;
  std::vector<std::string> class_names;
  std::vector<float> mean;       // [channels]
  std::vector<float> deviation;  // [channels], > 0
  double threshold = 0.5;        // 0 to 1, neither of them

  // The class that is answered. REQUIRES: one probability for each class.
  size_t answer(std::span<const double> probabilities) const;
};

// Throws Error(data) that names the file: no model of dtune, of another format,
// metadata that are missing or damaged.
ModelMetadata read_model_metadata(const SafetensorsFile& file);

}  // namespace dtune
