// dtune ls: the studies below a folder.

#include <memory>

#include "app/command.h"
#include "app/study_list.h"
#include <fmt/format.h>

#include "dtune/report/json.h"
#include "dtune/report/summary.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct LsOptions {
  std::string folder;
};

int list(const Console& console, const LsOptions& options) {
  const fs::path folder = options.folder.empty() ? "." : options.folder;
  std::vector<StudyListing> studies;
  for (const fs::path& database : databases_below(folder)) {
    studies.push_back(listing_for(database));
  }
  if (console.json) {
    console.print(ls_json(studies));
  } else if (studies.empty()) {
    console.notice(
        fmt::format("no studies below {} ('dtune run RECIPE' starts one)",
                    options.folder.empty() ? "this folder" : options.folder));
  } else {
    console.print(ls_text(studies, style_of(console)));
  }
  return kExitOk;
}

}  // namespace

Action declare_ls(Arguments& arguments) {
  auto options = std::make_shared<LsOptions>();
  arguments.describe("Lists the studies whose databases lie below a folder.");
  arguments.positional("FOLDER", options->folder,
                       "Where to look (default: the current folder).",
                       Complete::folder, false);
  arguments.json();
  arguments.example("dtune ls", "studies below the current folder");
  return [options](const Console& console) { return list(console, *options); };
}

}  // namespace dtune
