#include "dtune/base/private_library.h"

#include <cstdlib>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "DTUNE_LIBRARY_PATH";
constexpr const char* kBuilt = "../lib/dtune";  // from the program

// Best first.
std::vector<fs::path> folders(const fs::path& installed) {
  if (const char* folder = std::getenv(kVariable);
      folder != nullptr && *folder != '\0') {
    return {folder};
  }
  const fs::path program = executable_directory();
  return {program, program / kBuilt, program / installed};
}

std::string loader_text() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "the loader gives no reason";
}

}  // namespace

fs::path find_private_library(const PrivateLibrary& library) {
  std::string tried;
  for (const fs::path& folder : folders(library.installed)) {
    fs::path file = (folder / library.name).lexically_normal();
    std::error_code error;
    if (fs::exists(file, error)) return file;
    tried += (tried.empty() ? "" : ", ") + file.string();
  }
  throw Error(
      ErrorKind::study,
      fmt::format("{}: not found, and without it {}; looked for {} ({}, "
                  "or set {} to the folder that holds it)",
                  library.name, library.without, tried, library.remedy,
                  kVariable));
}

void* load_private_entry(const PrivateLibrary& library, const fs::path& file,
                         const char* entry) {
  void* loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: cannot be loaded: {} (is {} installed? "
                            "sh third_party/bootstrap.sh installs it)",
                            file.string(), loader_text(), library.needs));
  }
  void* found = ::dlsym(loaded, entry);
  if (found != nullptr) return found;
  throw Error(ErrorKind::study,
              fmt::format("{}: is not dtune's library: {} (build or install "
                          "dtune again)",
                          file.string(), loader_text()));
}

}  // namespace dtune
