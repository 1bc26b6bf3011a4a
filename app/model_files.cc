#include "app/model_files.h"

#include "app/study_files.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/safetensors.h"
#include "dtune/report/text.h"

namespace dtune {

namespace fs = std::filesystem;

fs::path find_model(const std::string& name) {
  fs::path path = name;
  if (path.extension() == ".safetensors") {
    if (fs::exists(path)) return path;
    throw Error(ErrorKind::config,
                fmt::format("{}: there is no such file ('dtune best' shows "
                            "where a study's model is)",
                            name));
  }
  const fs::path database = find_database(name);
  fs::path model = files_of(database).model();
  if (fs::exists(model)) return model;
  if (!is_database(database)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: is neither a model nor a study (name a "
                            "model.safetensors, a study's .db or its recipe)",
                            name));
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: has no model yet: there is no {} (let the study "
                          "finish: dtune resume {}; a study of a program has "
                          "none)",
                          name, model.string(), shell_quoted(name)));
}

NamedModel open_model(const std::string& name) {
  const fs::path path = find_model(name);
  ModelMetadata metadata = read_model_metadata(SafetensorsFile(path));
  RecipeFile recipe = RecipeFile::parse_stored(
      metadata.recipe, path.string(), fs::absolute(path).parent_path());
  return {path, std::move(metadata), std::move(recipe)};
}

}  // namespace dtune
