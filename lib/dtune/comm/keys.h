// Key files. A secret key is readable by its owner alone (mode 0600); one that
// others can read is refused.
//
//   dtune-secret-key <public> <secret>     NAME.key, agents' key files
//   dtune-public-key <public>              NAME.pub
#pragma once

#include <filesystem>
#include <string>

#include "dtune/comm/curve.h"

namespace dtune {

// Creates the folder (0700) and the file (0600). Throws Error(config) where the
// file exists, Error(data) or Error(temporary) where it cannot be written.
void write_secret_key(const std::filesystem::path& path, const CurveKeys& keys);
void write_public_key(const std::filesystem::path& path,
                      const std::string& public_key);

// Throw Error(config) with a remedy where the file is missing, readable by
// others, or holds no such key.
CurveKeys read_secret_key(const std::filesystem::path& path);
std::string read_public_key(const std::filesystem::path& path);

// The pair in the file; made if there is none. Two processes that ask at the
// same time get the same pair.
CurveKeys read_or_make_secret_key(const std::filesystem::path& path);

// Where people's settings go: $XDG_CONFIG_HOME/dtune, else ~/.config/dtune.
std::filesystem::path config_directory();
// What agents remember: $XDG_STATE_HOME/dtune, else ~/.local/state/dtune.
std::filesystem::path state_directory();

// A file with mode 0600 that appears whole or not at all. False where `path`
// exists and `replace` is false.
bool write_private_file(const std::filesystem::path& path,
                        const std::string& text, bool replace);
// Throws Error(config) where others than its owner can read or write it; root's
// file, as Kubernetes mounts a Secret, may be read by this process's group.
void check_private(const std::filesystem::path& path);

}  // namespace dtune
