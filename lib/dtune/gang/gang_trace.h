// What the gangs of a server have traced: one file for all of them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dtune/base/clock.h"
#include "dtune/gang/decisions.h"
#include "dtune/gang/trace_file.h"

namespace dtune::gang {

// A gang is a process of the trace, and each of its members another one: their
// numbers follow the gang's. All does nothing where no file is open. Not
// thread-safe.
class GangTrace {
 public:
  // `clock` is the machine's, and outlives this.
  explicit GangTrace(const Clock& clock) : clock_(clock) {}

  // Throws as TraceFile.
  void open(const std::filesystem::path& file);
  bool is_open() const { return file_ != nullptr; }

  void name(int gang, const GangOptions& options);
  void mark(int gang, const GangMark& mark);
  void gauge(int gang, int member, const std::string& name, double value);
  void add(int gang, int member, const TraceChunk& chunk);
  // Why nothing can be written any more: the file is closed then.
  std::optional<std::string> flush();

 private:
  static int pid(int gang, int member) { return gang + 1 + member; }

  const Clock& clock_;
  std::unique_ptr<TraceFile> file_;
};

}  // namespace dtune::gang
