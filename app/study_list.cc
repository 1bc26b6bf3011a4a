#include "app/study_list.h"

#include <algorithm>

#include "app/study_loader.h"
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/study/command_words.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 6;  // folders below the one that was named

// Hidden folders and those of build tools hold no studies but many files.
bool worth_entering(const fs::directory_entry& folder) {
  const std::string name = folder.path().filename().string();
  return !name.starts_with('.') && name != "node_modules" &&
         !name.ends_with(".files") && !folder.is_symlink();
}

}  // namespace

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
    // A study of `dtune ask` is held for moments only, while others train.
    listing.held = writer_of(database).has_value() ||
                   (loaded.row.state == StudyState::running &&
                    is_run_by_others(loaded.study.recipe));
    return listing;
  } catch (const Error& error) {
    StudyListing listing;
    listing.database = short_path(database);
    listing.problem = error.what();
    return listing;
  }
}

}  // namespace dtune
