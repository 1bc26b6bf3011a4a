#include "dtune/submit/engine_commands.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {

const EngineCommands& engine_commands(const std::string& engine) {
  static const std::vector<EngineCommands> all = {
      slurm_commands(), kubernetes_commands(), sagemaker_commands()};
  const auto found = std::ranges::find(all, engine, &EngineCommands::engine);
  if (found != all.end()) return *found;
  const auto known =
      std::ranges::find(submit_engines(), engine, &SubmitEngine::name);
  DTUNE_CHECK(known != submit_engines().end());
  throw Error(ErrorKind::config,
              fmt::format("dtune does not submit to {} by itself (write the "
                          "request with --dry-run >FILE, then: {} FILE)",
                          known->title, known->by_hand));
}

}  // namespace dtune
