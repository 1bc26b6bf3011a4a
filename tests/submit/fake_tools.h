// Scripts in place of the programs of engines.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "dtune/base/file.h"

namespace dtune {

// While it lives, PATH begins with a folder of such scripts, and records of
// submissions go there.
class FakeTools {
 public:
  FakeTools() {
    const char* path = std::getenv("PATH");
    old_path_ = path == nullptr ? "" : path;
    ::setenv("PATH", (folder_.path().string() + ":" + old_path_).c_str(), 1);
    const char* state = std::getenv("XDG_STATE_HOME");
    old_state_ = state == nullptr ? "" : state;
    ::setenv("XDG_STATE_HOME", (folder_.path() / "state").c_str(), 1);
  }
  ~FakeTools() {
    ::setenv("PATH", old_path_.c_str(), 1);
    ::setenv("XDG_STATE_HOME", old_state_.c_str(), 1);
    if (old_state_.empty()) ::unsetenv("XDG_STATE_HOME");
  }
  FakeTools(const FakeTools&) = delete;
  FakeTools& operator=(const FakeTools&) = delete;

  // A script that adds its arguments and environment to NAME.args and
  // NAME.environ, its stdin to NAME.stdin, and goes on with `body`.
  void tool(const std::string& name, const std::string& body) const {
    const std::filesystem::path file = folder_.path() / name;
    const std::string notes = file.string();
    std::ofstream(notes) << "#!/bin/sh\necho \"$@\" >>" << notes
                         << ".args\nenv >>" << notes << ".environ\ncat >>"
                         << notes << ".stdin\n"
                         << body << '\n';
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  // What is in a file there; "" where there is none yet.
  std::string note(const std::string& name) const {
    const std::filesystem::path file = folder_.path() / name;
    return std::filesystem::exists(file) ? read_file(file) : "";
  }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryDirectory folder_;
  std::string old_path_;
  std::string old_state_;
};

}  // namespace dtune
