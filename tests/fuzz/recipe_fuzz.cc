// Any bytes read as a recipe end in a recipe or in a RecipeError; a recipe that
// reads, reads again from its resolved text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "dtune/config/recipe_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto file = dtune::RecipeFile::parse(text, "fuzz.yaml", "/recipes");
    const std::string resolved = file.resolved_yaml();
    const auto again = dtune::RecipeFile::parse(resolved, "fuzz.yaml", "/");
    if (again.resolved_yaml() != resolved) {
      std::fprintf(stderr, "%s\nreads back as\n%s\n", resolved.c_str(),
                   again.resolved_yaml().c_str());
      std::abort();
    }
  } catch (const dtune::RecipeError&) {
    return 0;
  }
  return 0;
}
