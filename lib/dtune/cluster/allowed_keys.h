// The file of machines that have joined a study: a line "key node time" each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtune {

struct AllowedKey {
  std::string key;    // Z85
  std::string node;   // as it called itself
  std::string since;  // "2026-01-31 12:00 UTC"
};

// None where there is no file. Throws Error(config) where the file is not
// private or holds something else.
std::vector<AllowedKey> read_allowed_keys(const std::filesystem::path& file);

// Errors as write_private_file.
void write_allowed_keys(const std::filesystem::path& file,
                        const std::vector<AllowedKey>& keys);

}  // namespace dtune
