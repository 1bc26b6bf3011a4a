// A disk for SQLite that can fail and lose its power: a VFS above the system's
// own. It notes every call that changes a file; a call can be made to fail; and
// from the notes it makes the files as they may be found after a power cut.
//
// The model of a disk, as strict as sqlite.org/atomiccommit.html allows: what
// was written since a file was last synced may be there in any part (each call,
// the last one torn at any byte) or not at all; so may a file that was made or
// removed, until its folder was synced (SQLite does so with the first sync of a
// new journal or log). After a sync that failed, what it should have kept may
// be gone for good although reads of the running system still find it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dtune/base/random.h"

namespace dtune::test {

enum class DiskAction { create, write, truncate, sync, sync_folder, remove };

struct DiskCall {
  DiskAction action = DiskAction::write;
  std::string file;    // its name, without folders
  int64_t offset = 0;  // of a write; the size that a truncation leaves
  std::string bytes;   // of a write
  bool failed = false;
};

// Which calls fail: those with numbers first .. first + count - 1 among the
// calls of `action`, counted from when the fault was set.
struct DiskFault {
  DiskAction action = DiskAction::write;
  int64_t first = 0;
  int64_t count = 1;
  int code = 0;       // SQLite's, e.g. SQLITE_FULL
  bool torn = false;  // a write leaves its first half
};

// While it exists, databases that are opened lie on it. One at a time, made
// when none is open.
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  void set_fault(std::optional<DiskFault> fault);
  // Calls of the fault's kind since it was set.
  int64_t met() const;
  // How many calls were noted; from any thread.
  size_t now() const;
  std::vector<DiskCall> take_notes();
  void stop_noting();

  // For the VFS: notes the call; SQLITE_OK, or what it is to fail with.
  int note(DiskCall call);
  // Half of a write that fails is done.
  bool tears() const;

 private:
  mutable std::mutex mutex_;
  std::vector<DiskCall> calls_;
  bool noting_ = true;
  std::optional<DiskFault> fault_;
  int64_t met_ = 0;
};

// The files on a disk after each call, and what a power cut then leaves.
class PowerCuts {
 public:
  void apply(const DiskCall& call);
  // Makes the files of one possible outcome in an empty folder.
  void cut(Rng& rng, const std::filesystem::path& folder) const;

 private:
  struct File {
    bool safe = false;   // its entry in the folder
    bool there = false;  // as the running system sees it
    std::string kept;
    std::vector<DiskCall> pending;  // since the last sync
    // Of an earlier file of this name: it may come back.
    std::optional<std::string> former;
  };

  std::map<std::string, File> files_;
};

}  // namespace dtune::test
