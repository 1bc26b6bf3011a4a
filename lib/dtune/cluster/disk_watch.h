// A full disk: how long it is waited for, and when it is said.
#pragma once

#include <filesystem>
#include <optional>

#include "dtune/base/clock.h"

namespace dtune {

// Not thread-safe.
class DiskWatch {
 public:
  // `folder` of the checkpoints; "": there are none.
  DiskWatch(std::filesystem::path folder, Duration patience);

  // Something could not be written. True where that is news: when it was
  // written again a moment ago, it is not.
  bool full(MonoTime now);
  // Something was written. True where it had been said that it could not be.
  bool written(MonoTime now);

  // The same of the database, whose writer says it to the user: when it is
  // written again, true where nothing else was full.
  void database_full(MonoTime now);
  bool database_written(MonoTime now);

  bool is_full() const { return since_.has_value(); }
  // No step should begin: there is no room for what it would write. Tries every
  // two seconds, by a file as large as the largest checkpoint.
  bool holds(MonoTime now);
  bool given_up(MonoTime now) const;
  Duration patience() const { return patience_; }

 private:
  bool has_room() const;

  const std::filesystem::path folder_;
  const Duration patience_;
  std::optional<MonoTime> since_;
  std::optional<MonoTime> before_;  // the last time, until it was written again
  MonoTime ended_{};                // then
  MonoTime next_try_{};
  bool room_ = false;  // the last time that it was tried
  bool said_ = false;
  bool only_database_ = false;
};

}  // namespace dtune
