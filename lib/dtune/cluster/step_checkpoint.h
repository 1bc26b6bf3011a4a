// Checkpoints of single steps: a trial's checkpoint is replaced after every
// step, so one that is to be kept gets a second name, a hard link, before its
// step is reported. The coordinator removes those that it does not want.
#pragma once

#include <filesystem>

namespace dtune {

// "trial-7.checkpoint.step-9".
std::filesystem::path step_checkpoint(const std::filesystem::path& checkpoint,
                                      int step);

// The step of such a name; 0 for any other name.
int step_of(const std::filesystem::path& path);

// Gives what the checkpoint holds now the step's name, atomically, in place of
// what had it. False where that cannot be done, as on a file system without
// links.
bool keep_step(const std::filesystem::path& checkpoint, int step);

}  // namespace dtune
