// dtune export: a study as CSV or JSON.

#include <memory>

#include "app/command.h"
#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/report/csv.h"
#include "dtune/report/json.h"

namespace dtune {
namespace {

struct ExportOptions {
  std::string study;
  bool csv = false;
  bool curves = false;
  bool json = false;
  std::string output;
};

int export_study(const Console& console, const ExportOptions& options) {
  if (int{options.csv} + int{options.curves} + int{options.json} != 1) {
    throw Error(ErrorKind::config,
                "dtune export: needs one of --csv, --curves and --json (see "
                "dtune export --help)");
  }
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
  arguments.describe("Writes a study's trials for other programs.");
  arguments.positional("STUDY", options->study, "The database, or its recipe.",
                       Complete::study, true);
  arguments.flag("--csv", options->csv, "One line per trial.");
  arguments.flag("--curves", options->curves,
                 "CSV with one line per step of every trial.");
  arguments.flag("--json", options->json,
                 "Everything: trials, curves, the recipe.");
  arguments.option("--output", options->output, "FILE",
                   "Write here (default: stdout).", Complete::file);
  arguments.example("dtune export recipe.db --csv > trials.csv",
                    "for a spreadsheet");
  arguments.example("dtune export recipe.db --curves --output curves.csv",
                    "every step of every trial");
  return [options](const Console& console) {
    return export_study(console, *options);
  };
}

}  // namespace dtune
