// Keeps the page of `dtune report` up to date while a study runs.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace dtune {

// Writes the page of a database to a file every now and then, on a thread of
// its own that has the lowest priority: the database is read as any other
// program would read it, and training does not wait. A page that cannot be
// written is tried again the next time.
class ReportWriter {
 public:
  ReportWriter(std::filesystem::path database, std::filesystem::path output);
  // Ends the thread, after the page that it is writing.
  ~ReportWriter();
  ReportWriter(const ReportWriter&) = delete;
  ReportWriter& operator=(const ReportWriter&) = delete;

 private:
  void run();

  const std::filesystem::path database_;
  const std::filesystem::path output_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool done_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace dtune
