// Files: read, replace atomically, map, lock. Errors name the path and what to
// do about it: a missing file is Error(data), no space is Error(temporary).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dtune {

// REQUIRES: the file is at most `max_bytes` long (Error(data) otherwise).
std::string read_file(const std::filesystem::path& path,
                      uint64_t max_bytes = uint64_t{1} << 34);

// Writes to a temporary file beside `path`, then renames: readers see the old
// or the new content, never a part. `durable` also syncs file and folder to
// the disk, which survives power loss; without it only a crash of the process.
// What is a device or a pipe, or lies in /dev, is written to as it is.
void write_file_atomic(const std::filesystem::path& path,
                       std::string_view bytes, bool durable);

// The same for content that lies in several places: `pieces` one after the
// other, without a copy of the whole.
void write_file_atomic(const std::filesystem::path& path,
                       std::span<const std::string_view> pieces, bool durable);

// A read-only mapping of a whole file, shared by all processes that map it.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// An advisory lock (flock) on a file that it creates; released when destroyed
// and by the kernel when the process dies, however it dies.
class FileLock {
 public:
  // Throws Error(temporary) naming the holder's process id where it is held.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

// A folder that is removed with all that is in it when this is destroyed.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix = "dtune");
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Bytes free to this user on the file system that holds `path` (or its
// nearest existing parent).
uint64_t free_bytes(const std::filesystem::path& path);

// $XDG_CACHE_HOME/dtune, else ~/.cache/dtune if that can be written, else a
// folder of the temporary directory. Not created.
std::filesystem::path cache_directory();

// The folder of the running program's file.
std::filesystem::path executable_directory();

}  // namespace dtune
