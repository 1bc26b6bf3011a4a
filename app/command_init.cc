// dtune init: a commented recipe to start from.

#include <filesystem>
#include <memory>

#include "app/command.h"
#include "app/study_files.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/config/recipe_file.h"
#include "dtune/report/text.h"

namespace dtune {
namespace {

struct InitOptions {
  std::string kind = "fashion-mnist";
  std::string file;
  bool force = false;
};

// A recipe's comments name it as it lies in the project ("dtune run
// recipes/image-folder.yaml"); here it gets the name of the file written.
std::string name_file(std::string text, const std::string& file) {
  const std::string folder = "recipes/";
  const std::string ending = ".yaml";
  const std::string word = shell_quoted(file);
  for (size_t at = text.find(folder); at != std::string::npos;
       at = text.find(folder, at)) {
    const size_t end = text.find(ending, at);
    if (end == std::string::npos) break;
    text.replace(at, end + ending.size() - at, word);
    at += word.size();
  }
  return text;
}

int init(const Console& console, const InitOptions& options) {
  const bool named = !options.file.empty() && !is_stdout(options.file);
  const std::string file =
      options.file.empty() ? options.kind + ".yaml" : options.file;
  const std::string text = name_file(recipe_template(options.kind),
                                     named ? file : options.kind + ".yaml");
  if (is_stdout(file)) {
    console.print(text);
    return kExitOk;
  }
  refuse_to_overwrite(
      file, options.force,
      fmt::format("name another file: dtune init {} FILE", options.kind));
  write_file_atomic(file, text, false);
  const std::string word = shell_quoted(file);
  console.line(fmt::format("wrote {}\nnext: dtune plan {}, then dtune run {}",
                           file, word, word));
  return kExitOk;
}

}  // namespace

Action declare_init(Arguments& arguments) {
  auto options = std::make_shared<InitOptions>();
  const std::vector<std::string> kinds = recipe_template_kinds();
  std::string list;
  for (const std::string& kind : kinds) {
    list += (list.empty() ? "" : ", ") + kind;
  }
  arguments.describe(
      "Writes a recipe with every key explained.\n\nKinds: " + list + ".");
  arguments.positional("KIND", options->kind,
                       "What to start from (default: fashion-mnist).",
                       Complete::words, false, kinds);
  arguments.positional("FILE", options->file,
                       "Where to write it (default: KIND.yaml; - for stdout).",
                       Complete::file, false);
  arguments.flag("--force", options->force, "Overwrite the file.");
  arguments.example("dtune init", "fashion-mnist.yaml, ready to run");
  arguments.example("dtune init folder cats.yaml",
                    "your own images, in a folder per class");
  return [options](const Console& console) { return init(console, *options); };
}

}  // namespace dtune
