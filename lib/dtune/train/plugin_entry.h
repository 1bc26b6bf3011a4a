// What the program and libdtune_train.so must agree on.
#pragma once

#include <cstdint>
#include <string_view>

#include "dtune/base/random.h"
#include "dtune/train/plugin.h"

namespace dtune {

// The library's one entry point: its engine, or null where `fingerprint` is
// not its own. Throws nothing.
using PluginEntry = Engine*(uint64_t fingerprint);
inline constexpr const char* kPluginEntryName = "dtune_train_engine";

// Differs between versions, and where the types that cross the border have
// changed their sizes.
inline uint64_t plugin_fingerprint() {
  return mix_seed({hash_text(DTUNE_VERSION), sizeof(Recipe),
                   sizeof(TrialAssignment), sizeof(StepReport),
                   sizeof(EvalRequest), sizeof(EngineInfo),
                   sizeof(std::string)});
}

}  // namespace dtune
