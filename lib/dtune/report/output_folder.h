// Folders that an export writes.
#pragma once

#include <filesystem>

namespace dtune {

// With those above it; nothing where it is there already. Throws Error(data)
// where it cannot be created.
void make_output_folder(const std::filesystem::path& folder);

}  // namespace dtune
