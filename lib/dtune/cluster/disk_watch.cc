#include "dtune/cluster/disk_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr Duration kBetweenTries = std::chrono::seconds(2);
// A disk that fills again within this time has not been emptied.
constexpr Duration kSameTrouble = std::chrono::seconds(10);
constexpr uintmax_t kLeastRoom = 1 << 20;
constexpr uintmax_t kMostRoom = 1 << 28;  // a larger one takes long to write

uintmax_t largest_file(const fs::path& folder) {
  uintmax_t largest = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    const uintmax_t size = entry.file_size(ignored);
    if (!ignored) largest = std::max(largest, size);
  }
  return largest;
}

}  // namespace

DiskWatch::DiskWatch(fs::path folder, Duration patience)
    : folder_(std::move(folder)), patience_(patience) {}

bool DiskWatch::full(MonoTime now) {
  if (since_) {
    room_ = false;
    return false;
  }
  const bool again = before_ && now - ended_ < kSameTrouble;
  since_ = again ? *before_ : now;
  next_try_ = now + kBetweenTries;
  room_ = false;
  if (!again) said_ = true;
  return !again;
}

bool DiskWatch::written(MonoTime now) {
  if (!since_) return false;
  before_ = std::exchange(since_, std::nullopt);
  ended_ = now;
  return std::exchange(said_, false);
}

void DiskWatch::database_full(MonoTime now) {
  if (full(now)) only_database_ = true;
}

bool DiskWatch::database_written(MonoTime now) {
  if (!std::exchange(only_database_, false)) return false;
  written(now);
  return true;
}

bool DiskWatch::holds(MonoTime now) {
  if (!since_) return false;
  if (now >= next_try_) {
    next_try_ = now + kBetweenTries;
    room_ = has_room();
  }
  return !room_;
}

bool DiskWatch::given_up(MonoTime now) const {
  return since_ && now - *since_ > patience_;
}

bool DiskWatch::has_room() const {
  if (folder_.empty()) return true;
  const fs::path probe = folder_ / ("room-" + std::to_string(getpid()));
  const uintmax_t size =
      std::clamp(largest_file(folder_), kLeastRoom, kMostRoom);
  try {
    write_file_atomic(probe, std::string(size, '\0'), /*durable=*/false);
  } catch (const Error&) {
    return false;
  }
  std::error_code ignored;
  fs::remove(probe, ignored);
  return true;
}

}  // namespace dtune
