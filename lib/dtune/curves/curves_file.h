// Files of recorded curves: NPZ archives of
//   learning_rate [a], l2 [b], dropout [c]   float64, ascending
//   epoch [e]                                integers, ascending, from 1; where
//                                            it is missing: 1 .. e
//   tasks [n]                                optional: integers or words; where
//                                            it is missing: the names of
//                                            members
//   val_accuracy_<task> [a, b, c, e]         or [s, a, b, c, e] for s settings;
//                                            float16/32/64 in [0, 1], or uint16
//                                            (divided by 65535)
//   repeats_<task> [r, ...]                  optional: the r trainings of which
//                                            val_accuracy_<task> is the mean,
//                                            each of its shape
//   training_<task> [s, 3]                   optional, words: optimizer,
//                                            schedule, number of training
//                                            images; "" where not known
//   setting_<task> [s, 4] (or [4])           optional: batch size, units,
//                                            momentum, layers; NaN: not known
#pragma once

#include <filesystem>
#include <vector>

#include "dtune/curves/recorded_curves.h"

namespace dtune {

class ZipArchive;  // data/zip_archive.h

// One entry a task and setting, in the order of the file. Throws Error(data)
// with the file and the member: missing members, wrong shapes or types, axes
// that do not ascend, values that are not finite or outside of [0, 1].
std::vector<RecordedCurves> read_curves(const std::filesystem::path& path);
// The same from an archive that is open.
std::vector<RecordedCurves> read_curves(ZipArchive& archive);

// Writes (float32 values) such a file, atomically. REQUIRES: all of the same
// axes. Cubes of one task are its settings. Throws Error(data).
void write_curves(const std::filesystem::path& path,
                  const std::vector<RecordedCurves>& curves);

}  // namespace dtune
