#include "app/report_writer.h"

#include <algorithm>
#include <utility>

#include "app/study_report.h"
#include <sys/resource.h>
#include <unistd.h>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/quiet_thread.h"

namespace dtune {
namespace {

constexpr Duration kFirst = std::chrono::seconds(2);
constexpr Duration kShortest = std::chrono::seconds(10);
constexpr int kPart = 30;  // of the time at most goes into writing
constexpr int kLowestPriority = 19;

}  // namespace

ReportWriter::ReportWriter(std::filesystem::path database,
                           std::filesystem::path output)
    : database_(std::move(database)),
      output_(std::move(output)),
      thread_(start_quiet_thread([this] { run(); })) {}

ReportWriter::~ReportWriter() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  over_.notify_one();
  thread_.join();
}

void ReportWriter::run() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowestPriority);
  Duration pause = kFirst;
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, pause, [this] { return done_; })) {
    lock.unlock();
    const MonoTime start = system_clock().now();
    try {
      write_file_atomic(output_, study_report({database_}), false);
    } catch (const Error&) {
      // A full disk, a folder that is gone: what is written at the end says so.
    }
    pause = std::max(kShortest, kPart * (system_clock().now() - start));
    lock.lock();
  }
}

}  // namespace dtune
