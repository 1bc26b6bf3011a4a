#include "dtune/train/plugin.h"

#include <cstdlib>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/train/plugin_entry.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libdtune_train.so";
constexpr const char* kVariable = "DTUNE_LIBRARY_PATH";

// Folders in which the library may be, best first.
std::vector<fs::path> library_folders() {
  if (const char* folder = std::getenv(kVariable);
      folder != nullptr && *folder != '\0') {
    return {folder};
  }
  const fs::path program = executable_directory();
  return {program, program / DTUNE_BUILT_LIBRARY,
          program / DTUNE_INSTALLED_LIBRARY};
}

fs::path find_library() {
  std::string tried;
  for (const fs::path& folder : library_folders()) {
    fs::path file = (folder / kLibrary).lexically_normal();
    std::error_code error;
    if (fs::exists(file, error)) return file;
    tried += (tried.empty() ? "" : ", ") + file.string();
  }
  throw Error(
      ErrorKind::study,
      fmt::format("{}: not found, and without it no CNN can be trained; looked "
                  "for {} (build dtune with -DDTUNE_TORCH=ON, or set {} to the "
                  "folder that holds it)",
                  kLibrary, tried, kVariable));
}

std::string loader_text() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "the loader does not say why";
}

Engine& load() {
  const fs::path file = find_library();
  // Local, so that LibTorch's symbols meet no other library's; never closed:
  // LibTorch does not survive that.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: cannot be loaded: {} (is LibTorch installed? "
                            "sh third_party/bootstrap.sh installs it)",
                            file.string(), loader_text()));
  }
  const auto entry =
      reinterpret_cast<PluginEntry*>(::dlsym(library, kPluginEntryName));
  if (entry == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: is not dtune's library: {} (build or install "
                            "dtune again)",
                            file.string(), loader_text()));
  }
  Engine* engine = entry(plugin_fingerprint());
  if (engine == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: belongs to another build of dtune than this "
                            "program (build or install dtune again; unset {} "
                            "if it is set)",
                            file.string(), kVariable));
  }
  return *engine;
}

}  // namespace

Engine& load_engine() {
  static const std::reference_wrapper<Engine> engine = load();
  return engine;
}

}  // namespace dtune
