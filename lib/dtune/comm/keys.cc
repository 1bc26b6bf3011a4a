#include "dtune/comm/keys.h"

#include <cerrno>
#include <cstdlib>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "dtune-secret-key";
constexpr const char* kPublic = "dtune-public-key";
constexpr uint64_t kMaxBytes = 4096;

[[noreturn]] void fail(const fs::path& path, const char* what, int code) {
  throw Error(code == ENOSPC ? ErrorKind::temporary : ErrorKind::data,
              fmt::format("{}: cannot be {}: {}", path.string(), what,
                          errno_text(code)));
}

fs::path home_folder(const char* variable, const char* below_home) {
  const char* own = std::getenv(variable);
  if (own != nullptr && *own == '/') return fs::path(own) / "dtune";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') {
    return fs::path(home) / below_home / "dtune";
  }
  throw Error(
      ErrorKind::config,
      fmt::format("there is no home folder (set HOME or {})", variable));
}

void make_private_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error)) return;
  make_private_folder(folder.parent_path());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    fail(folder, "created", errno);
  }
}

void write_all(int descriptor, const fs::path& path, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "written", errno);
    done += static_cast<size_t>(n);
  }
  if (fsync(descriptor) != 0) fail(path, "written", errno);
}

// The words of the file's line that begins with `kind`.
std::string word_after(const fs::path& path, const char* kind, int index) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: there is no such key file (make one with: "
                            "dtune keygen)",
                            path.string()));
  }
  std::istringstream lines(read_file(path, kMaxBytes));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != kind) continue;
    for (int i = 0; i < index; ++i) words >> word;
    if (words && is_curve_key(word)) return word;
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: holds no '{}' (make one with: dtune keygen)",
                          path.string(), kind));
}

std::string secret_text(const CurveKeys& keys) {
  return fmt::format("{} {} {}\n", kSecret, keys.public_key, keys.secret_key);
}

}  // namespace

bool write_private_file(const fs::path& path, const std::string& text,
                        bool replace) {
  make_private_folder(path.parent_path());
  std::string name = path.string() + ".XXXXXX";
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);  // mode 0600
  if (descriptor < 0) fail(path, "written", errno);
  bool written = true;
  try {
    write_all(descriptor, path, text);
    if (replace) {
      if (rename(name.c_str(), path.c_str()) != 0) fail(path, "written", errno);
    } else if (link(name.c_str(), path.c_str()) != 0) {
      if (errno != EEXIST) fail(path, "written", errno);
      written = false;
    }
  } catch (...) {
    close(descriptor);
    unlink(name.c_str());
    throw;
  }
  close(descriptor);
  if (!replace) unlink(name.c_str());
  return written;
}

void check_private(const fs::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return;  // reading it says why
  if ((info.st_mode & 077) == 0) return;
  // A Secret that Kubernetes mounts is root's, and this user's group reads it.
  const bool mounted = info.st_uid == 0 && ::geteuid() != 0 &&
                       info.st_gid == ::getegid() && (info.st_mode & 037) == 0;
  if (mounted) return;
  throw Error(ErrorKind::config,
              fmt::format("{0}: holds a secret but other users can read it "
                          "(chmod 600 {0})",
                          path.string()));
}

void write_secret_key(const fs::path& path, const CurveKeys& keys) {
  if (write_private_file(path, secret_text(keys), false)) return;
  throw Error(ErrorKind::config,
              fmt::format("{}: exists already; machines that know its public "
                          "key would be locked out (remove it first to replace "
                          "it)",
                          path.string()));
}

void write_public_key(const fs::path& path, const std::string& public_key) {
  write_file_atomic(path, fmt::format("{} {}\n", kPublic, public_key), true);
}

CurveKeys read_secret_key(const fs::path& path) {
  CurveKeys keys;
  keys.secret_key = word_after(path, kSecret, 2);
  check_private(path);
  keys.public_key = public_key_of(keys.secret_key);
  return keys;
}

std::string read_public_key(const fs::path& path) {
  return word_after(path, kPublic, 1);
}

CurveKeys read_or_make_secret_key(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    write_private_file(path, secret_text(generate_curve_keys()), false);
  }
  return read_secret_key(path);
}

fs::path config_directory() {
  return home_folder("XDG_CONFIG_HOME", ".config");
}

fs::path state_directory() {
  return home_folder("XDG_STATE_HOME", ".local/state");
}

}  // namespace dtune
