// The model files that commands are given.
#pragma once

#include <filesystem>
#include <string>

#include "dtune/config/recipe_file.h"
#include "dtune/study/model_metadata.h"

namespace dtune {

// A model's file, or that of the study that is named. Throws Error(config)
// where there is none.
std::filesystem::path find_model(const std::string& name);

// A model with what its file says of it.
struct NamedModel {
  std::filesystem::path path;
  ModelMetadata metadata;
  RecipeFile recipe;
};

// Throws as find_model() does, Error(data) where the file is no model of dtune.
NamedModel open_model(const std::string& name);

}  // namespace dtune
