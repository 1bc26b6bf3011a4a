#include "dtune/comm/file_parts.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

namespace dtune::files {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHashAtOnce = size_t{1} << 20;

[[noreturn]] void fail_file(const std::string& what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  const bool missing = code == ENOENT;
  throw Problem{full      ? Why::full
                : missing ? Why::missing
                          : Why::failed,
                fmt::format("{}: {}", what, errno_text(code))};
}

}  // namespace

OpenFile::OpenFile(const fs::path& path, int flags)
    : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644)) {
  if (descriptor_ < 0) fail_file(path.string(), errno);
  struct stat info {};
  if (::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode)) return;
  ::close(std::exchange(descriptor_, -1));
  throw Problem{Why::failed, path.string() + ": is not a regular file"};
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::string OpenFile::read(uint64_t offset, size_t size) const {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::pread(descriptor_, bytes.data() + done, size - done,
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("cannot be read", errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

void OpenFile::write(uint64_t offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(descriptor_, bytes.data(), bytes.size(),
                               static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file("cannot be written", errno);
    offset += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

uint64_t OpenFile::size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail_file("cannot be read", errno);
  return static_cast<uint64_t>(info.st_size);
}

FileHash hash_of(const OpenFile& file, uint64_t size) {
  FileHash hash;
  for (uint64_t at = 0; at < size;) {
    const std::string bytes =
        file.read(at, std::min<uint64_t>(size - at, kHashAtOnce));
    if (bytes.empty()) throw Problem{Why::changed, "became shorter"};
    hash.add(bytes);
    at += bytes.size();
  }
  return hash;
}

Found Contents::find(const Find& message, const fs::path& path) {
  const Content& content = look(message.name, path);
  return {message.request, content.size, content.hash};
}

const Contents::Content& Contents::look(const std::string& name,
                                        const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int code = errno;
    forget(name);
    fail_file(name, code);
  }
  const int64_t changed_ns =
      info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
  const auto known = open_.find(name);
  if (known != open_.end()) {
    Content& c = known->second;
    c.used = ++uses_;
    if (c.device == info.st_dev && c.inode == info.st_ino &&
        c.changed_ns == changed_ns &&
        c.size == static_cast<uint64_t>(info.st_size)) {
      return c;
    }
    open_.erase(known);
  }
  make_room();
  Content content;
  content.file = OpenFile(path, O_RDONLY);
  content.device = info.st_dev;
  content.inode = info.st_ino;
  content.changed_ns = changed_ns;
  content.size = content.file.size();
  content.hash = hash_of(content.file, content.size).value();
  content.used = ++uses_;
  return open_[name] = std::move(content);
}

void Contents::make_room() {
  if (open_.size() < kMostOpen) return;
  open_.erase(std::min_element(open_.begin(), open_.end(),
                               [](const auto& a, const auto& b) {
                                 return a.second.used < b.second.used;
                               }));
}

Chunk Contents::read(const Read& message, const fs::path& path) {
  auto known = open_.find(message.name);
  if (known == open_.end() || known->second.hash != message.hash) {
    // A new server, or another content than was asked for.
    if (look(message.name, path).hash != message.hash) {
      throw Problem{Why::changed, message.name + ": was replaced"};
    }
    known = open_.find(message.name);
  }
  Content& content = known->second;
  content.used = ++uses_;
  Chunk chunk{message.request, message.offset, 0,
              content.file.read(message.offset, message.size)};
  const uint64_t left =
      message.offset < content.size ? content.size - message.offset : 0;
  if (chunk.data.empty() ||
      chunk.data.size() != std::min<uint64_t>(left, message.size)) {
    open_.erase(known);  // written to while it is read
    throw Problem{Why::changed, message.name + ": has another size"};
  }
  return chunk;
}

void remove_parts(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".part") {
      std::error_code ignored;
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace dtune::files
