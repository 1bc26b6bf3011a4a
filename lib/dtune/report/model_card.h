// What a model is and how it is used, for people: model.md beside its file.
#pragma once

#include <filesystem>
#include <string>

#include "dtune/base/safetensors.h"

namespace dtune {

struct ModelMetadata;

// "the second class where its probability is 0.3700 or more": of two classes whose
// threshold was chosen. "": the most probable class is the answer.
std::string answer_rule(const ModelMetadata& metadata);

// Markdown: what it was trained on and how well it does, classes, input, the
// search's point, and how to load it with dtune and in PyTorch. `file` is what
// the commands call it. Throws Error(data) where the file is no model of dtune.
std::string model_card(const SafetensorsFile& model,
                       const std::filesystem::path& file);

}  // namespace dtune
