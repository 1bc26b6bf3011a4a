// Container images, written without any other program: an OCI image layout
// (github.com/opencontainers/image-spec, version 1.0), as a folder or as one
// archive. Layers are tar files without compression, so that the same content
// has the same digest everywhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/submit/tar_file.h"

namespace dtune {

struct ImageOptions {
  std::string name;                      // the reference in the layout: "0.1.0"
  std::vector<TarEntries> layers;        // lowest first
  std::vector<std::string> start;        // entry point
  std::vector<std::string> environment;  // "PATH=/usr/bin"
  std::string user;                      // "65532:65532"
  std::string folder;                    // where it starts
};

// Returns the digest of the manifest, "sha256:...". A path that ends with .tar
// becomes an archive of the layout. Throws Error(config) where `output` exists,
// otherwise as write_tar.
std::string write_image(const std::filesystem::path& output,
                        const ImageOptions& options);

// Where the loader has `loaded` (absolute paths) from, in an image: libraries
// below `own` (the folder of this program's libraries) go to
// /usr/local/lib/dtune, all others stay where they are.
TarEntries library_entries(const std::vector<std::string>& loaded,
                           const std::filesystem::path& own);
// Folders of libraries that the loader does not look into by itself.
std::string library_path(const TarEntries& entries);

// Files or folders of this machine, at the same place. Throws Error(data) for
// what is not there.
void add_files(TarEntries& entries, const std::filesystem::path& path);

// The shared libraries that this process has loaded so far.
std::vector<std::string> loaded_libraries();

}  // namespace dtune
