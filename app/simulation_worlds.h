// What `dtune simulate` is to train: the curves of a file or of a study.
#pragma once

#include <string>
#include <vector>

#include "app/console.h"

#include "dtune/curves/misleading.h"
#include "dtune/simulate/benchmark.h"

namespace dtune {

// "batch_size=64,width=256,momentum=0.9,depth=3", any of them, as words. Throws
// Error(config) for other names (with "did you mean") and values.
CubeContext parse_context(const std::vector<std::string>& words);

// The curves of an NPZ archive (curves/curves_file.h), or the trials of the
// study of that name (find_database). `context` is that of curves whose file
// does not say it; curves are misled as said. Says on stderr what a study
// lacks. Throws as read_curves, find_database, load_study and make_table_world
// do; Error(config) for a study that is to mislead.
Worlds read_worlds(const std::string& name, const CubeContext& context,
                   Misleading how, const Console& console);

// In the order of the worlds, each once.
std::vector<std::string> tasks_of(const Worlds& worlds);

// Leaves only the tasks that were named; without names, all. Throws
// Error(config) with "did you mean" for an unknown one.
void choose_tasks(const std::vector<std::string>& wanted, Worlds& worlds);

}  // namespace dtune
