#include "app/version.h"

#include "dtune_commit.h"
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/store/schema.h"

namespace dtune {
namespace {

nlohmann::ordered_json known(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace

std::string version_json() {
  return json_text(
      nlohmann::ordered_json{{"version", DTUNE_VERSION},
                             {"commit", known(DTUNE_COMMIT)},
                             {"compiler", DTUNE_COMPILER},
                             {"libtorch", known(DTUNE_TORCH_VERSION)},
                             {"schema", schema_migrations().back().version}});
}

}  // namespace dtune
