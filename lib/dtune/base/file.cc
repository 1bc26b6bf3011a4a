#include "dtune/base/file.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dtune/base/descriptor.h"
#include "dtune/base/error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  const char* remedy = full             ? " (free some space and try again)"
                       : code == EACCES ? " (check its permissions)"
                       : code == EROFS  ? " (choose another folder)"
                       : code == ENOENT ? " (check the path)"
                                        : "";
  throw Error(full ? ErrorKind::temporary : ErrorKind::data,
              fmt::format("{}: {}: {}{}", path.string(), what, errno_text(code),
                          remedy));
}

// Opening a pipe must not wait for its writer; no difference for files.
constexpr int kReadFlags = O_RDONLY | O_NONBLOCK;

int open_or_fail(const fs::path& path, int flags, const char* what) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(path, what, errno);
  return descriptor;
}

uint64_t regular_size(int descriptor, const fs::path& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail(path, "cannot be read", errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorKind::data,
                fmt::format("{}: is not a regular file", path.string()));
  }
  return static_cast<uint64_t>(info.st_size);
}

void write_all(int descriptor, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be written", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// Unlike that of any other writer, in this process or another.
fs::path temporary_beside(const fs::path& path) {
  static std::atomic<uint64_t> number{0};
  return path.string() + fmt::format(".{}.{}.tmp", ::getpid(), ++number);
}

// A device or a pipe, also behind a link: a file in its place would take it away
// from all other programs.
bool is_special(const fs::path& path) {
  std::error_code error;
  return path.parent_path() == "/dev" || fs::is_other(fs::status(path, error));
}

void write_pieces(const Descriptor& file,
                  std::span<const std::string_view> pieces,
                  const fs::path& path) {
  for (const std::string_view piece : pieces) {
    write_all(file.get(), piece, path);
  }
}

void sync_directory_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  const Descriptor folder(::open(parent.empty() ? "." : parent.c_str(),
                                 O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

}  // namespace

std::string read_file(const fs::path& path, uint64_t max_bytes) {
  const Descriptor file(open_or_fail(path, kReadFlags, "cannot be opened"));
  const uint64_t size = regular_size(file.get(), path);
  if (size > max_bytes) {
    throw Error(ErrorKind::data,
                fmt::format("{}: is {} bytes long; at most {} are read",
                            path.string(), size, max_bytes));
  }
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot be read", errno);
    if (n == 0) break;  // it became shorter meanwhile
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

void write_file_atomic(const fs::path& path, std::string_view bytes,
                       bool durable) {
  write_file_atomic(path, std::span<const std::string_view>(&bytes, 1),
                    durable);
}

void write_file_atomic(const fs::path& path,
                       std::span<const std::string_view> pieces, bool durable) {
  if (is_special(path)) {
    write_pieces(Descriptor(open_or_fail(path, O_WRONLY | O_TRUNC | O_CLOEXEC,
                                         "cannot be opened")),
                 pieces, path);
    return;
  }
  const fs::path temporary = temporary_beside(path);
  const Descriptor file(::open(temporary.c_str(),
                               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) fail(path, "cannot be created", errno);
  try {
    write_pieces(file, pieces, path);
    if (durable && ::fsync(file.get()) != 0) {
      fail(path, "cannot be synced", errno);
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      fail(path, "cannot be replaced", errno);
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (durable) sync_directory_of(path);
}

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor file(open_or_fail(path, kReadFlags, "cannot be opened"));
  size_ = regular_size(file.get(), path);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) fail(path, "cannot be mapped", errno);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

FileLock::FileLock(const fs::path& path)
    : descriptor_(open_or_fail(path, O_RDWR | O_CREAT, "cannot be locked")) {
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    // Only for the message below; a full disk does not make a lock void.
    const std::string holder = fmt::format("{}\n", ::getpid());
    if (::ftruncate(descriptor_, 0) == 0) {
      (void)!::pwrite(descriptor_, holder.data(), holder.size(), 0);
    }
    return;
  }
  const int code = errno;
  char holder[32] = {};
  const ssize_t n = ::read(descriptor_, holder, sizeof holder - 1);
  ::close(descriptor_);
  if (code != EWOULDBLOCK) fail(path, "cannot be locked", code);
  const long pid = n > 0 ? std::strtol(holder, nullptr, 10) : 0;
  throw Error(
      ErrorKind::temporary,
      fmt::format(
          "{}: is held by {} (wait until it ends, or stop it)", path.string(),
          pid > 0 ? fmt::format("process {}", pid) : "another process"));
}

FileLock::~FileLock() { ::close(descriptor_); }

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) {
  std::string name =
      (fs::temp_directory_path() / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(name.data()) == nullptr) {
    fail(name, "cannot be created", errno);
  }
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

uint64_t free_bytes(const fs::path& path) {
  fs::path at = fs::absolute(path);
  std::error_code error;
  while (!fs::exists(at, error) && at.has_relative_path()) {
    at = at.parent_path();
  }
  const fs::space_info info = fs::space(at, error);
  return error ? UINT64_MAX : info.available;
}

namespace {

// Whether `folder` can be written, or made where it is missing. A read-only
// file system counts as one that cannot, for root as well.
bool can_write(fs::path folder) {
  std::error_code error;
  while (!fs::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  return fs::is_directory(folder, error) &&
         ::access(folder.c_str(), W_OK | X_OK) == 0;
}

// In a folder that all users share: another may have made it first.
fs::path own_folder(const fs::path& folder) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return folder;  // not made yet
  const bool own = S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                   (info.st_mode & 022) == 0;
  if (own) return folder;
  throw Error(ErrorKind::data,
              fmt::format("{}: is not a folder of this user alone (remove it, "
                          "or set XDG_CACHE_HOME to a folder to use)",
                          folder.string()));
}

}  // namespace

fs::path cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME");
      cache != nullptr && *cache == '/') {
    return fs::path(cache) / "dtune";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    fs::path cache = fs::path(home) / ".cache" / "dtune";
    if (can_write(cache)) return cache;
  }
  return own_folder(fs::temp_directory_path() /
                    fmt::format("dtune-{}", ::getuid()));
}

fs::path executable_directory() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::current_path() : program.parent_path();
}

}  // namespace dtune
