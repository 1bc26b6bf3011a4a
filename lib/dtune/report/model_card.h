// What a model is and how it is used, for people: model.md beside its file.
#pragma once

#include <filesystem>
#include <string>

#include "dtune/base/safetensors.h"

namespace dtune {

// Markdown: what it was trained on and how well it does, classes, input, the
// search's point, and how to load it with dtune and in PyTorch. `file` is what
// the commands call it. Throws Error(data) where the file is no model of dtune.
std::string model_card(const SafetensorsFile& model,
                       const std::filesystem::path& file);

}  // namespace dtune
