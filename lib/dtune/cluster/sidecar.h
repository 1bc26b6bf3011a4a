// The reports of a trial's last steps, kept beside its checkpoint.
//
// A worker writes a checkpoint, then reports; if the machine dies in between,
// the checkpoint is ahead of the database. The sidecar closes the gap: it holds
// every report that is not yet acknowledged and the latest one, so a resumed
// trial first says what it did before instead of doing it again. A checkpoint
// that is ahead of its sidecar too (killed between the two writes) is not
// trusted.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dtune/cluster/protocol.h"

namespace dtune {

std::filesystem::path sidecar_path(const std::filesystem::path& checkpoint);

// Replaces the file atomically; one small write. Throws Error(temporary) where
// the disk is full.
void write_sidecar(const std::filesystem::path& checkpoint,
                   const std::string& study_id,
                   std::span<const control::Report> reports);

// What is there for this trial of this study; empty where there is no such
// file, it is damaged, or belongs to another trial.
std::vector<control::Report> read_sidecar(
    const std::filesystem::path& checkpoint, const std::string& study_id,
    TrialId trial);

}  // namespace dtune
