// What was acknowledged is there after a power cut at any moment, and whatever
// the disk refuses to do meanwhile.
#include <algorithm>
#include <functional>

#include "store/faulty_disk.h"
#include "store/story.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include "dtune/base/file.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using test::DiskAction;
using test::DiskCall;
using test::DiskFault;
using test::FaultyDisk;
using test::PowerCuts;
using test::Story;

// State of the story, and the calls of the disk before it was acknowledged.
struct Acknowledged {
  size_t state = 0;
  size_t calls = 0;
};

// Runs of one study on a faulty disk.
class DiskStudy {
 public:
  // False: it could not be opened, or not finished.
  bool run(FaultyDisk& disk, const fs::path& path, int puts,
           const std::string& detail = {}) {
    const auto store = open_sqlite_store(path, StoreMode::create_or_open);
    story.open(*store);
    for (int i = 0; i < puts; ++i) {
      story.put(*store, detail);
      note_commit(disk, *store);
      if (i % 3 == 2) story.finish(*store);
    }
    return story.finish(*store);
  }

  // What is missing in a folder of what was acknowledged before so many calls.
  std::string loss(const fs::path& folder, size_t calls) const try {
    const size_t safe = safe_after(calls);
    const auto store =
        open_sqlite_store(folder / "a.db", StoreMode::create_or_open);
    if (story.find(*store, safe) >= 0) return "";
    return fmt::format("state {} was acknowledged", safe);
  } catch (const Error& error) {
    return error.what();
  }

  size_t safe_after(size_t calls) const {
    size_t state = 0;
    for (const Acknowledged& one : acknowledged_) {
      if (one.calls <= calls) state = one.state;
    }
    return state;
  }

  Story story;

 private:
  void note_commit(FaultyDisk& disk, TrialStore& store) {
    const size_t state = story.number();
    try {
      store.after_commit([this, &disk, state] {
        acknowledged_.push_back({state, disk.now()});
      });
    } catch (const Error&) {
      // Of an earlier write; the note is queued all the same.
    }
  }

  std::vector<Acknowledged> acknowledged_;  // the writer's, then the test's
};

// In memory where there is such a folder: these tests make thousands of files.
std::string folder_prefix() {
  return fs::is_directory("/dev/shm") ? "/dev/shm/dtune" : "dtune";
}

struct Cuts {
  int tried = 0;
  std::vector<std::string> losses;  // what was missing, and where
};

// Cuts the power after each of the calls that `wanted` names, in `outcomes`
// ways, and opens what is left.
Cuts cut_power(const std::vector<DiskCall>& calls, const DiskStudy& study,
               const std::function<bool(size_t)>& wanted, int outcomes) {
  PowerCuts disk;
  Rng rng(31);
  Cuts cuts;
  for (size_t i = 0; i < calls.size(); ++i) {
    disk.apply(calls[i]);
    for (int k = 0; wanted(i) && k < outcomes; ++k, ++cuts.tried) {
      const TemporaryDirectory folder(folder_prefix());
      disk.cut(rng, folder.path());
      const std::string loss = study.loss(folder.path(), i + 1);
      if (loss.empty()) continue;
      cuts.losses.push_back(fmt::format("call {}, outcome {}: {}", i, k, loss));
    }
  }
  return cuts;
}

void check_nothing_lost(const Cuts& cuts) {
  for (const std::string& loss : cuts.losses) FAIL_CHECK(loss);
}

std::vector<DiskCall> stop(FaultyDisk& disk) {
  disk.set_fault(std::nullopt);
  disk.stop_noting();
  return disk.take_notes();
}

// A study whose disk fails as told, once or for good. False: the fault was
// never met.
bool survives(const DiskFault& fault) {
  FaultyDisk disk;
  const TemporaryDirectory folder(folder_prefix());
  const fs::path path = folder.path() / "a.db";
  DiskStudy study;
  disk.set_fault(fault);
  try {
    study.run(disk, path, 6);
  } catch (const Error& error) {
    CHECK_MESSAGE((error.kind() == ErrorKind::temporary ||
                   error.kind() == ErrorKind::store),
                  error.what());
  }
  for (const Error& error : study.story.errors()) {
    CHECK_MESSAGE((error.kind() == ErrorKind::temporary ||
                   error.kind() == ErrorKind::store),
                  error.what());
  }
  const bool met = disk.met() > fault.first;
  const auto calls = stop(disk);
  const size_t safe = study.safe_after(calls.size());
  CAPTURE(safe);
  {
    const auto store = open_sqlite_store(path, StoreMode::create_or_open);
    const int64_t held = study.story.find(*store, safe);
    REQUIRE(held >= 0);
    // One that goes away on its own costs nothing at all.
    if (fault.count == 1 && safe > 0) {
      CHECK(held == static_cast<int64_t>(study.story.number()));
    }
  }
  cut_power(
      calls, study, [&](size_t i) { return i + 1 == calls.size(); }, 4);
  return met;
}

}  // namespace

TEST_CASE("a power cut at any moment loses nothing that was acknowledged") {
  FaultyDisk disk;
  const TemporaryDirectory folder(folder_prefix());
  DiskStudy study;
  for (int run = 0; run < 3; ++run) {
    REQUIRE(study.run(disk, folder.path() / "a.db", 24));
  }
  auto calls = stop(disk);
  const auto always = [](size_t) { return true; };
  const Cuts cuts = cut_power(calls, study, always, 4);
  check_nothing_lost(cuts);
  CHECK(cuts.tried > 1000);

  // A disk that does not do what it says is found out.
  std::erase_if(calls, [](const DiskCall& call) {
    return call.action == DiskAction::sync && call.file == "a.db-wal";
  });
  CHECK_FALSE(cut_power(calls, study, always, 1).losses.empty());
}

TEST_CASE("a power cut while the log is merged and begun again loses nothing") {
  FaultyDisk disk;
  const TemporaryDirectory folder(folder_prefix());
  DiskStudy study;
  const std::string detail(400'000, 'x');  // a hundred pages of the log
  REQUIRE(study.run(disk, folder.path() / "a.db", 60, detail));
  const auto calls = stop(disk);
  // Between the first page that is merged and the fourth sync after it.
  const auto merged =
      std::find_if(calls.begin() + 200, calls.end(), [](const DiskCall& call) {
        return call.action == DiskAction::write && call.file == "a.db";
      });
  REQUIRE(merged != calls.end());
  const auto first = static_cast<size_t>(merged - calls.begin());
  const auto near = [&](size_t i) {
    return i + 10 > first && i < first + 400 && i % 5 == 0;
  };
  const Cuts cuts = cut_power(calls, study, near, 2);
  check_nothing_lost(cuts);
  CHECK(cuts.tried > 100);
}

TEST_CASE("a write, sync or truncation that fails loses nothing") {
  struct Kind {
    DiskAction action;
    int code;
    bool torn;
  };
  for (const Kind& kind :
       {Kind{DiskAction::write, SQLITE_FULL, false},
        Kind{DiskAction::write, SQLITE_IOERR_WRITE, true},
        Kind{DiskAction::sync, SQLITE_IOERR_FSYNC, false},
        Kind{DiskAction::truncate, SQLITE_IOERR_TRUNCATE, false},
        Kind{DiskAction::create, SQLITE_CANTOPEN, false},
        Kind{DiskAction::remove, SQLITE_IOERR_DELETE, false}}) {
    for (const int64_t count : {1, 1 << 30}) {
      bool met = true;
      for (int64_t first = 0; met; ++first) {
        CAPTURE(static_cast<int>(kind.action));
        CAPTURE(kind.torn);
        CAPTURE(count);
        CAPTURE(first);
        met = survives({kind.action, first, count, kind.code, kind.torn});
      }
    }
  }
}

}  // namespace dtune
