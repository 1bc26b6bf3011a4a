// dtune export: a study as CSV or JSON, its model as Python.

#include <memory>

#include "app/command.h"
#include "app/model_files.h"
#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/report/csv.h"
#include "dtune/report/json.h"
#include "dtune/report/pytorch.h"

namespace dtune {
namespace {

struct ExportOptions {
  std::string study;
  bool csv = false;
  bool curves = false;
  bool json = false;
  std::string pytorch;
  std::string output;
};

int export_model(const Console& console, const ExportOptions& options) {
  const NamedModel model = open_model(options.study);
  const std::vector<LayerSpec> layers =
      expand_model(model.recipe.recipe().model, model.metadata.input,
                   static_cast<int>(model.metadata.class_names.size()));
  write_file_atomic(options.pytorch, pytorch_module(model.metadata, layers),
                    false);
  console.notice(fmt::format(
      "wrote {}: load(\"{}\") in it returns the network (pip install torch "
      "safetensors)",
      options.pytorch, model.path.string()));
  return kExitOk;
}

int export_study(const Console& console, const ExportOptions& options) {
  const bool model = !options.pytorch.empty();
  if (int{options.csv} + int{options.curves} + int{options.json} + int{model} !=
      1) {
    throw Error(ErrorKind::config,
                "dtune export: needs one of --csv, --curves, --json and "
                "--pytorch FILE (see dtune export --help)");
  }
  if (model) return export_model(console, options);
  const LoadedStudy loaded =
      load_study(find_database(options.study), StoreMode::read_only);
  const std::string text = options.csv ? trials_csv(loaded.study)
                           : options.curves
                               ? curves_csv(loaded.study)
                               : export_json(loaded.study, loaded.facts);
  if (options.output.empty()) {
    console.print(text);
  } else {
    write_file_atomic(options.output, text, false);
    console.notice(fmt::format("wrote {}", options.output));
  }
  return kExitOk;
}

}  // namespace

Action declare_export(Arguments& arguments) {
  auto options = std::make_shared<ExportOptions>();
  arguments.describe(
      "Writes a study's trials, or its model, for other programs.");
  arguments.positional("STUDY", options->study,
                       "The database, or its recipe; with --pytorch also a "
                       "model.safetensors.",
                       Complete::study, true);
  arguments.flag("--csv", options->csv, "One line per trial.");
  arguments.flag("--curves", options->curves,
                 "CSV with one line per step of every trial.");
  arguments.flag("--json", options->json,
                 "Everything: trials, curves, the recipe.");
  arguments.option("--pytorch", options->pytorch, "FILE",
                   "Write a Python module that defines the study's network and "
                   "loads its model file in PyTorch.",
                   Complete::file);
  arguments.option("--output", options->output, "FILE",
                   "Write here (default: stdout).", Complete::file);
  arguments.example("dtune export recipe.db --csv > trials.csv",
                    "for a spreadsheet");
  arguments.example("dtune export recipe.db --curves --output curves.csv",
                    "every step of every trial");
  arguments.example(
      "dtune export recipe.files/model.safetensors --pytorch m.py",
      "the model for PyTorch");
  return [options](const Console& console) {
    return export_study(console, *options);
  };
}

}  // namespace dtune
