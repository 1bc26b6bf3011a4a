// The model that a study keeps: a safetensors file with the tensors' names and
// shapes as PyTorch has them ("conv1.weight" [O, I, KH, KW]), and the recipe
// beside it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "dtune/base/safetensors.h"
#include "dtune/nn/network.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/batch_source.h"

namespace dtune {

// Metadata of a model file, as text or JSON:
//   format          "pt": how tensors are laid out
//   dtune_format    "model-1"
//   dtune_version   of the program that wrote it
//   study, trial, seed
//   recipe          YAML, as resolved; the model's layers are in it
//   input_shape     "1x28x28": channels, height, width
//   class_names     JSON list
//   mean, deviation JSON lists, one number a channel: of pixels in [0, 1]
//   metrics         JSON object
//   trained_on      "train" or "train+validation"
struct ModelCard {
  const TrialAssignment& assignment;
  const PreparedData& data;
  const Normalization& normalization;
  std::map<std::string, double> metrics;
};

// Writes the file and, beside it with the extension .yaml, the recipe; both
// atomically and durably. Makes the folder if need be.
void write_model(const std::filesystem::path& path, const ModelCard& card,
                 Network& network);

// Fills the network's weights and buffers; returns the normalisation that the
// model was trained with. Throws Error(data) where the file is damaged or no
// model of ours, Error(config) where it was trained on other images or classes
// than `data` has, or has another architecture than the network.
Normalization load_model(const std::filesystem::path& path,
                         const PreparedData& data, Network& network);

}  // namespace dtune
