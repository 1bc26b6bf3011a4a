// dtune report: a study as one HTML page.

#include <memory>

#include "app/command.h"
#include "app/study_files.h"
#include "app/study_report.h"
#include <fmt/format.h>

#include "dtune/base/file.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<std::string> studies;
  std::string output;
};

int report(const Console& console, const ReportOptions& options) {
  std::vector<fs::path> databases;
  for (const std::string& name : options.studies) {
    databases.push_back(find_database(name));
  }
  fs::path output = options.output;
  if (output.empty())
    output = fs::path(databases.front()).replace_extension(".html");
  const std::string page = study_report(databases);
  if (!write_output(output, page)) return kExitOk;
  console.notice(fmt::format("wrote {} ({} kB): open it in a browser",
                             short_path(output), page.size() / 1000));
  return kExitOk;
}

}  // namespace

Action declare_report(Arguments& arguments) {
  auto options = std::make_shared<ReportOptions>();
  arguments.describe(
      "Writes one HTML file that shows how a study went and what came of it: "
      "the verdict and what to be careful about, learning curves with "
      "forecasts, every trial with every decision about it, which parameters "
      "matter and where they are best, and how busy the slots were. It needs "
      "no server and no network, can be sent and printed, and is read with "
      "mouse, finger or keys. Several studies are shown side by side.\n\n"
      "A study that is running is shown as it is at this moment.");
  arguments.positionals("STUDY", options->studies,
                        "Databases, or their recipes.", Complete::study);
  arguments.option("--output", options->output, "FILE",
                   "Write here (default: beside the first database, its name "
                   "with .html).",
                   Complete::file);
  arguments.example("dtune report recipe.db", "writes recipe.html");
  arguments.example("dtune report new.db base.db --output both.html",
                    "which differences are larger than noise");
  return
      [options](const Console& console) { return report(console, *options); };
}

}  // namespace dtune
