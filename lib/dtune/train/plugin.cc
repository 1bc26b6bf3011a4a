#include "dtune/train/plugin.h"

#include <cstdlib>
#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "dtune/base/private_library.h"
#include "dtune/train/plugin_entry.h"

namespace dtune {
namespace {

PrivateLibrary train_library() {
  return {
      .name = "libdtune_train.so",
      .installed = DTUNE_INSTALLED_LIBRARY,
      .without = "no network can be trained",
      .remedy =
          "install the package dtune-train, or build with -DDTUNE_TORCH=ON",
      .needs = "LibTorch",
  };
}

Engine& load() {
  const PrivateLibrary library = train_library();
  const std::filesystem::path file = find_private_library(library);
  const auto entry = reinterpret_cast<PluginEntry*>(
      load_private_entry(library, file, kPluginEntryName));
  Engine* engine = entry(plugin_fingerprint());
  if (engine == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: belongs to another build of dtune than this "
                            "program (build or install dtune again; unset "
                            "DTUNE_LIBRARY_PATH if it is set)",
                            file.string()));
  }
  return *engine;
}

}  // namespace

Engine& load_engine_for(const Recipe& recipe) {
  // cuBLAS reads it once; this value is one of two with which it repeats its
  // results (docs.nvidia.com/cuda/cublas, "Results reproducibility").
  if (recipe.deterministic) {
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
  }
  // CUDA's largest: for trials side by side, each in a stream.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*replace=*/0);
  return load_engine();
}

Engine& load_engine() {
  static const std::reference_wrapper<Engine> engine = load();
  return engine;
}

void check_engine_installed() { find_private_library(train_library()); }

}  // namespace dtune
