#include "dtune/comm/folder_store.h"

#include <cctype>
#include <thread>

#include <fmt/core.h>

#include "dtune/base/file.h"

namespace dtune {
namespace {

constexpr Duration kFolderLook = std::chrono::milliseconds(2);

}  // namespace

void FolderStore::set(const std::string& key, const std::string& value) {
  write_file_atomic(path_of(key), value, false);
}

std::string FolderStore::get(const std::string& key, Duration timeout) {
  const MonoTime deadline = system_clock().now() + timeout;
  const std::filesystem::path path = path_of(key);
  while (!std::filesystem::exists(path)) {
    if (system_clock().now() >= deadline) {
      throw Error(ErrorKind::comm, fmt::format("{}: was not set within {:g} s",
                                               key, to_seconds(timeout)));
    }
    std::this_thread::sleep_for(kFolderLook);
  }
  return read_file(path);
}

// One name for each key: letters and digits as they are, the rest as numbers.
std::filesystem::path FolderStore::path_of(const std::string& key) const {
  std::string name;
  for (const char c : key) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else {
      name += fmt::format("_{:02x}", static_cast<unsigned char>(c));
    }
  }
  return folder_ / name;
}

}  // namespace dtune
