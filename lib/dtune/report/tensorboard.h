// A study as event files of TensorBoard: a folder for each trial with its
// metrics over the steps, and what the HParams page needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "dtune/study/study.h"

namespace dtune {

// Writes FOLDER/events.out.tfevents.* (the experiment) and one such file in
// FOLDER/trial-NNN for every trial. Files of an earlier export of this study
// are replaced. Throws Error(data) where the folder cannot be made.
//
// Format: records of length, masked CRC-32C, bytes (tensorflow's
// record_writer.h) that hold Event messages (event.proto, summary.proto,
// hparams' api.proto). Scalars are single-precision, as TensorBoard keeps them.
void write_tensorboard(const Study& study, const std::filesystem::path& folder);

// CRC-32C (Castagnoli) as record_writer.h masks it.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace dtune
