// Runs the dtune program from outside, in a folder of its own.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "dtune/base/file.h"

namespace dtune {

// Whether the program trains networks: it was built with LibTorch.
inline constexpr bool kTrains = DTUNE_TRAINS;
inline constexpr const char* kNoTorch = "this build has no LibTorch";

struct Outcome {
  int code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

// A started dtune, in a process group of its own. Destroyed: the group is
// killed.
class RunningProgram {
 public:
  // `words`: the program's path first.
  RunningProgram(const std::vector<std::string>& words,
                 const std::filesystem::path& folder,
                 const std::map<std::string, std::string>& environment,
                 bool terminal, int user);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  bool ended() const;
  // Reads stdout until `text` has been there; false where the program ended
  // first (or two minutes are over).
  bool wait_for(const std::string& text) {
    return await(outcome_.out, out_, text);
  }
  // The same of stderr.
  bool wait_for_error(const std::string& text) {
    return await(outcome_.err, err_, text);
  }
  void send(int signal) const;        // to the program alone
  void send_group(int signal) const;  // to its process group
  Outcome wait(std::chrono::seconds patience = std::chrono::seconds(120));

 private:
  bool await(const std::string& heard, const int& descriptor,
             const std::string& text);
  bool read_some(int timeout_ms);

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  Outcome outcome_;
};

// A folder to work in, with a home and a cache of its own; no process of a test
// outlives it unnoticed.
class Workplace {
 public:
  Workplace();

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path operator/(const std::string& name) const {
    return folder_.path() / name;
  }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const;
  // Keeps trials of held_recipe() where they are, and lets them go on.
  void hold() const { write("hold", ""); }
  void release() const { std::filesystem::remove(path() / "hold"); }

  // dtune with these words, to its end.
  Outcome run(const std::vector<std::string>& words) const;
  // `before`: words of a command that executes it, as `ip netns exec NAME`.
  RunningProgram start(const std::vector<std::string>& words,
                       bool terminal = false,
                       std::vector<std::string> before = {}) const;

  // Processes that were started in this place and still live, after a moment
  // of patience: "PID NAME" of each.
  std::vector<std::string> orphans(int patience_ms = 60'000) const;

  // The user that the program runs as: 0 keeps this user (else the tests' user
  // must be root, and the place is given to that user).
  void become(int user);

  std::map<std::string, std::string> environment;

 private:
  int user_ = 0;
  TemporaryDirectory folder_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Ends the TCP connections of another process, as a cut cable does in the end;
// how many these were.
int shut_connections(pid_t pid);

// A recipe whose trials are a shell loop of `steps` steps of `seconds` each:
// val_accuracy rises with the step and is best at lr = 0.01.
std::string shell_recipe(int trials, int steps, const std::string& seconds);

// The same, but no trial goes on after its step `held` while the place is on
// hold(). What is to happen during a study so happens during it, however fast
// or slow the machine is.
std::string held_recipe(int trials, int steps, const std::string& seconds,
                        int held);

}  // namespace dtune
