// dtune ls: the studies below a folder.

#include <algorithm>
#include <memory>

#include "app/command.h"
#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/report/json.h"
#include "dtune/report/summary.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct LsOptions {
  std::string folder;
  bool json = false;
};

constexpr int kDeepest = 6;  // folders below the one that was named

// Hidden folders and those of build tools hold no studies but many files.
bool worth_entering(const fs::directory_entry& folder) {
  const std::string name = folder.path().filename().string();
  return !name.starts_with('.') && name != "node_modules" &&
         !name.ends_with(".files") && !folder.is_symlink();
}

std::vector<fs::path> databases_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::recursive_directory_iterator it(
      folder, fs::directory_options::skip_permission_denied, error);
  if (error) {
    throw Error(ErrorKind::config,
                fmt::format("{}: cannot be listed: {} (name a folder)",
                            folder.string(), error.message()));
  }
  for (; it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (error) break;
    if (it->is_directory(error)) {
      if (!worth_entering(*it) || it.depth() >= kDeepest) {
        it.disable_recursion_pending();
      }
    } else if (it->path().extension() == ".db" && is_database(it->path())) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

StudyListing listing_for(const fs::path& database) {
  try {
    const LoadedStudy loaded =
        load_study(database, StoreMode::read_only, CurvePart::ends);
    StudyListing listing =
        listing_of(loaded.study, loaded.row, short_path(database));
    listing.held = writer_of(database).has_value();
    return listing;
  } catch (const Error& error) {
    StudyListing listing;
    listing.database = short_path(database);
    listing.problem = error.what();
    return listing;
  }
}

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
  arguments.flag("--json", options->json, "As JSON.");
  arguments.example("dtune ls", "studies below the current folder");
  return [options](const Console& console) { return list(console, *options); };
}

}  // namespace dtune
