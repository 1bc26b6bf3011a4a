// dtune export: a study for other programs, its model for other engines.

#include <memory>

#include "app/command.h"
#include "app/model_files.h"
#include "app/study_files.h"
#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/report/csv.h"
#include "dtune/report/json.h"
#include "dtune/report/mlflow.h"
#include "dtune/report/model_card.h"
#include "dtune/report/onnx.h"
#include "dtune/report/optuna.h"
#include "dtune/report/pytorch.h"
#include "dtune/report/tensorboard.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string study;
  bool csv = false;
  bool curves = false;
  bool json = false;
  std::string optuna;
  std::string tensorboard;
  std::string mlflow;
  std::string pytorch;
  std::string onnx;
  std::string card;
  std::string output;

  bool of_model() const {
    return !pytorch.empty() || !onnx.empty() || !card.empty();
  }
};

void check_one(const ExportOptions& options) {
  int wanted = int{options.csv || options.curves} + int{options.json};
  for (const std::string* file :
       {&options.optuna, &options.tensorboard, &options.mlflow,
        &options.pytorch, &options.onnx, &options.card}) {
    wanted += file->empty() ? 0 : 1;
  }
  const bool to_output = options.csv || options.curves || options.json;
  if (wanted == 1 && !to_output && !options.output.empty()) {
    throw Error(ErrorKind::config,
                "dtune export: --output has no effect here: it is for --csv, "
                "--curves and --json (leave it out)");
  }
  if (wanted == 1) return;
  throw Error(ErrorKind::config,
              "dtune export: needs one of --csv, --curves, --json, --optuna, "
              "--tensorboard, --mlflow, --pytorch, --onnx and --card (see "
              "dtune export --help)");
}

std::vector<LayerSpec> layers_of(const NamedModel& model) {
  return expand_model(model.recipe.recipe().model, model.metadata.input,
                      static_cast<int>(model.metadata.class_names.size()));
}

int export_model(const Console& console, const ExportOptions& options) {
  const NamedModel model = open_model(options.study);
  const auto write = [&](const std::string& file, const std::string& text,
                         const std::string& what) {
    if (write_output(file, text)) {
      console.notice(fmt::format("wrote {}: {}", file, what));
    }
    return kExitOk;
  };
  if (!options.pytorch.empty()) {
    return write(options.pytorch,
                 pytorch_module(model.metadata, layers_of(model)),
                 fmt::format("load(\"{}\") in it returns the network (pip "
                             "install torch safetensors)",
                             model.path.string()));
  }
  const SafetensorsFile weights(model.path);
  if (!options.onnx.empty()) {
    const std::string answer = answer_rule(model.metadata);
    return write(options.onnx,
                 onnx_model(model.metadata, layers_of(model), weights),
                 "its input 'images' are bytes [N, height, width, channels]" +
                     (answer.empty() ? "" : "; answer: " + answer));
  }
  return write(options.card, model_card(weights, model.path),
               "what the model is and how it is used");
}

bool is_journal(const fs::path& path) {
  return path.extension() == ".log" || path.extension() == ".journal";
}

// What Optuna holds beside an export of dtune is not written again.
void refuse_to_lose(const std::string& storage) {
  if (!fs::exists(storage)) return;
  const OptunaFile found = look_at_optuna_file(storage);
  if (found == OptunaFile::exported) return;
  if (found == OptunaFile::foreign) {
    throw Error(ErrorKind::config,
                fmt::format("{}: exists, and is no export of dtune (name "
                            "another file)",
                            storage));
  }
  throw Error(
      ErrorKind::config,
      fmt::format(
          "{}: holds what Optuna has added since dtune wrote it (name "
          "another file; {} makes a warm start of its trials)",
          storage,
          quoted_command("dtune import --optuna " + shell_quoted(storage))));
}

int export_storage(const Console& console, const LoadedStudy& loaded,
                   const ExportOptions& options) {
  const auto wrote = [&](const std::string& file, const std::string& what) {
    console.notice(fmt::format("wrote {} ({})", file, what));
    return kExitOk;
  };
  if (!options.optuna.empty()) {
    refuse_to_lose(options.optuna);
    if (is_journal(options.optuna)) {
      write_file_atomic(options.optuna,
                        optuna_journal(loaded.study, loaded.facts), false);
      return wrote(options.optuna, "a journal of Optuna 4 and 5");
    }
    write_optuna_database(loaded.study, loaded.facts, options.optuna);
    return wrote(
        options.optuna,
        "optuna-dashboard " + shell_quoted("sqlite:///" + options.optuna));
  }
  if (!options.tensorboard.empty()) {
    write_tensorboard(loaded.study, options.tensorboard);
    return wrote(options.tensorboard,
                 fmt::format("tensorboard --logdir {}",
                             shell_quoted(options.tensorboard)));
  }
  write_mlflow(loaded.study, loaded.facts, options.mlflow);
  return wrote(options.mlflow, "runs of MLflow's file store");
}

int export_study(const Console& console, const ExportOptions& options) {
  check_one(options);
  if (options.of_model()) return export_model(console, options);
  const LoadedStudy loaded =
      load_study(find_database(options.study), StoreMode::read_only);
  if (!options.csv && !options.curves && !options.json) {
    return export_storage(console, loaded, options);
  }
  const std::string text = options.curves ? curves_csv(loaded.study)
                           : options.csv
                               ? trials_csv(loaded.study)
                               : export_json(loaded.study, loaded.facts);
  if (options.output.empty()) {
    console.print(text);
  } else if (write_output(options.output, text)) {
    console.notice(fmt::format("wrote {}", options.output));
  }
  return kExitOk;
}

void declare_study_formats(Arguments& arguments, ExportOptions& options) {
  arguments.flag("--csv", options.csv, "One line per trial.");
  arguments.flag("--curves", options.curves,
                 "CSV with one line per step of every trial; with or without "
                 "--csv.");
  arguments.flag("--json", options.json,
                 "Everything: trials, curves, the recipe.");
  arguments.option("--optuna", options.optuna, "FILE",
                   "A storage of Optuna 4 and 5, which can go on with it; a "
                   "name in .log or .journal: as a journal.",
                   Complete::file);
  arguments.option("--tensorboard", options.tensorboard, "FOLDER",
                   "Event files of TensorBoard: scalars and HParams.",
                   Complete::folder);
  arguments.option("--mlflow", options.mlflow, "FOLDER",
                   "Runs of MLflow's file store ('mlflow migrate-filestore' "
                   "moves them into a database).",
                   Complete::folder);
}

void declare_model_formats(Arguments& arguments, ExportOptions& options) {
  arguments.option("--pytorch", options.pytorch, "FILE",
                   "Write a Python module that defines the study's network and "
                   "loads its model file in PyTorch.",
                   Complete::file);
  arguments.option("--onnx", options.onnx, "FILE",
                   "The model for onnxruntime and other engines, from bytes of "
                   "images to probabilities.",
                   Complete::file);
  arguments.option("--card", options.card, "FILE",
                   "What the model is and how it is used, as Markdown.",
                   Complete::file);
}

}  // namespace

Action declare_export(Arguments& arguments) {
  auto options = std::make_shared<ExportOptions>();
  arguments.describe(
      "Writes a study's trials, or its model, for other programs.");
  arguments.positional("STUDY", options->study,
                       "The database, or its recipe; with --pytorch, --onnx "
                       "and --card also a model.safetensors.",
                       Complete::study, true);
  declare_study_formats(arguments, *options);
  declare_model_formats(arguments, *options);
  arguments.option("--output", options->output, "FILE",
                   "Write --csv, --curves and --json here (default: stdout).",
                   Complete::file);
  arguments.example("dtune export recipe.db --csv > trials.csv",
                    "for a spreadsheet");
  arguments.example("dtune export recipe.db --curves --output curves.csv",
                    "every step of every trial");
  arguments.example("dtune export recipe.db --optuna optuna.db",
                    "optuna-dashboard sqlite:///optuna.db shows it");
  arguments.example("dtune export recipe.files/model.safetensors --onnx m.onnx",
                    "the model for onnxruntime");
  arguments.example(
      "dtune export recipe.files/model.safetensors --pytorch m.py",
      "the model for PyTorch");
  return [options](const Console& console) {
    return export_study(console, *options);
  };
}

}  // namespace dtune
