// Archives that depend on their content alone: no times, no owners, sorted
// names. POSIX ustar.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace dtune {

// What an archive has at a path.
struct TarEntry {
  enum class Kind { file, folder, copy };
  Kind kind = Kind::file;
  std::string text;              // file: its content
  std::filesystem::path source;  // copy: the file with the content
  int mode = 0644;
  int owner = 0;  // user and group
};
// By path, without the first '/'; folders end with '/'. Folders above a file
// are added by write_tar.
using TarEntries = std::map<std::string, TarEntry>;

// SHA-256 of bytes that come in parts. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::string_view bytes);
  std::string hex();  // once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_of(std::string_view bytes);

struct WrittenFile {
  std::string digest;  // SHA-256, hex
  uint64_t bytes = 0;
};

// Throws Error(data) for a source that cannot be read or a path of more than
// 255 characters, Error(temporary) where `file` cannot be written.
WrittenFile write_tar(const std::filesystem::path& file,
                      const TarEntries& entries);

}  // namespace dtune
