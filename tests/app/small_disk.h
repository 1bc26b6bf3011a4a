// A folder of a workplace that is a small file system of its own. Needs root.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "app/program.h"
#include <sys/mount.h>

namespace dtune {

class SmallDisk {
 public:
  // `options` of tmpfs: "size=8m".
  SmallDisk(const Workplace& place, const std::string& name,
            const char* options)
      : path_(place / name) {
    std::filesystem::create_directories(path_);
    mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  // Leaves about `bytes` of room.
  void fill(uintmax_t bytes) const {
    const uintmax_t room = std::filesystem::space(path_).free;
    std::ofstream ballast(path_ / "ballast", std::ios::binary);
    if (room > bytes) ballast << std::string(room - bytes, 'x');
  }
  void make_room() const { std::filesystem::remove(path_ / "ballast"); }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

}  // namespace dtune
