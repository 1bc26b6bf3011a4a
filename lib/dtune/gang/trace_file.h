// One file of trace events of a whole run, in the Trace Event Format's array
// form (Google's "Trace Event Format" document): the closing bracket may be
// missing there, so the file can be read at any time, and after any crash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "dtune/base/clock.h"
#include "dtune/gang/protocol.h"

namespace dtune::gang {

// Times are of this process's monotonic clock. Not thread-safe.
class TraceFile {
 public:
  // Throws Error(temporary) where the file cannot be written.
  TraceFile(const std::filesystem::path& path, MonoTime start);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // "rank 2 (gpu1)", with a label such as the gang's name.
  void name_process(int pid, const std::string& name, const std::string& label);
  // `offset_ns` makes the item's times this process's.
  void add(int pid, const TraceItem& item, int64_t offset_ns);
  void counters(int pid, const std::string& name,
                const std::map<std::string, double>& values, MonoTime when);
  void instant(int pid, const std::string& name, MonoTime when);
  // Throws Error(temporary) where anything since the start could not be
  // written: nothing is any more.
  void flush();

 private:
  int lane(int pid, const std::string& name);
  double microseconds(int64_t ns) const;
  void line(std::string_view text);
  void note_failure();

  std::filesystem::path path_;
  std::ofstream out_;
  int failure_ = 0;  // errno of the first write that failed
  int64_t start_ns_;
  std::map<std::pair<int, std::string>, int> lanes_;
};

}  // namespace dtune::gang
