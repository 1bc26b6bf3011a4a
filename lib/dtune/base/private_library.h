// The program's own libraries that it loads only when something needs them.
#pragma once

#include <filesystem>
#include <string>

namespace dtune {

struct PrivateLibrary {
  std::string name;                 // "libdtune_train.so"
  std::filesystem::path installed;  // its folder, relative to the program's
  std::string without;              // "no CNN can be trained"
  std::string remedy;               // how it comes to be there
  std::string needs;                // "LibTorch"
};

// The library's file: in the folder that DTUNE_LIBRARY_PATH says and nowhere
// else where that is set; otherwise beside the program, where a build puts it
// (../lib/dtune), or where it is installed. Throws Error(study).
std::filesystem::path find_private_library(const PrivateLibrary& library);

// Loads `file`, which find_private_library has found, and returns the function
// `entry` of it. Its symbols meet no other library's; it is never closed:
// LibTorch does not survive that, and threads go on. Throws Error(study).
void* load_private_entry(const PrivateLibrary& library,
                         const std::filesystem::path& file, const char* entry);

}  // namespace dtune
