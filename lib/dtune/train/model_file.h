// The model that a study keeps: a safetensors file with the tensors' names and
// shapes as PyTorch has them ("conv1.weight" [O, I, KH, KW]), and the recipe
// beside it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "dtune/base/safetensors.h"
#include "dtune/nn/network.h"
#include "dtune/study/model_metadata.h"
#include "dtune/study/trial_runner.h"
#include "dtune/train/batch_source.h"

namespace dtune {

// What write_model says of a model (study/model_metadata.h lists the keys).
struct ModelCard {
  const TrialAssignment& assignment;
  const PreparedData& data;
  const Normalization& normalization;
  std::map<std::string, double> metrics;
  std::optional<double> threshold;  // where the recipe asks for one
};

// Writes the file and, beside it with the extension .yaml, the recipe; both
// atomically and durably. Makes the folder if need be.
void write_model(const std::filesystem::path& path, const ModelCard& card,
                 Network& network);

// Fills the network's weights and buffers. Throws Error(data) where the file is
// damaged, Error(config) where it has another architecture than the network.
void load_weights(const SafetensorsFile& file, Network& network);

// The same of a file; returns what it says of itself. Throws Error(data) where
// the file is no model of ours, Error(config) where it was trained on other
// images or classes than `data` has.
ModelMetadata load_model(const std::filesystem::path& path,
                         const PreparedData& data, Network& network);

}  // namespace dtune
