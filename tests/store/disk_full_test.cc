// A full disk: reported, nothing acknowledged is lost, and the store goes on
// when there is room again. Needs root, for a small file system of its own.
#include <fstream>
#include <thread>

#include "eventually.h"
#include "skip.h"
#include "store/records.h"
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/store/trial_store.h"

namespace dtune {
namespace {

using test::make_report;
using test::make_study;
using test::make_trial;

// A file system of a given size, or none where that is not allowed.
class SmallDisk {
 public:
  explicit SmallDisk(const char* options) {
    mounted_ =
        ::mount("none", folder_.path().c_str(), "tmpfs", 0, options) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return folder_.path(); }

  // Leaves about `bytes` of room.
  void fill(uint64_t bytes) {
    const uint64_t room = free_bytes(path());
    std::ofstream ballast(path() / "ballast", std::ios::binary);
    if (room > bytes) ballast << std::string(room - bytes, 'x');
  }
  void make_room() { std::filesystem::remove(path() / "ballast"); }

 private:
  TemporaryDirectory folder_;
  bool mounted_ = false;
};

constexpr char kNeedsRoot[] = "mounting a small file system needs root";

}  // namespace

TEST_CASE("a full disk is reported and loses nothing") {
  SmallDisk disk("size=2m");
  if (!disk.mounted()) return skip(kNeedsRoot);
  const auto path = disk.path() / "study.db";
  std::atomic<int> acknowledged = 0;
  int put = 0;
  {
    const auto store = open_sqlite_store(path, StoreMode::create_or_open);
    store->put_study(make_study());
    store->put_trial(make_trial(1));
    store->flush();
    disk.fill(200'000);
    bool full = false;
    while (!full) {
      REQUIRE(put < 100'000);
      try {
        ++put;
        store->put_report(1, 1, make_report(put, 0.5), [&] { ++acknowledged; });
        if (put % 50 == 0) store->flush();
      } catch (const Error& error) {
        full = true;
        CHECK(error.kind() == ErrorKind::temporary);
        const std::string text = error.what();
        CHECK(text.find("no space left") != std::string::npos);
        CHECK(text.find(path.string()) == 0);
      }
    }
    CHECK(acknowledged < put);

    // What is committed can still be read, and the error comes again as long
    // as the disk is full, but nothing waits for ever.
    CHECK_THROWS_AS(store->flush(), Error);
    const auto reader = open_sqlite_store(path, StoreMode::read_only);
    CHECK(reader->load_trials()[0].steps() >= acknowledged);

    disk.make_room();
    bool flushed = false;
    for (int i = 0; i < 50 && !flushed; ++i) {
      try {
        store->flush();  // may tell of the last failed attempt first
        flushed = true;
      } catch (const Error&) {
      }
    }
    CHECK(flushed);
    CHECK(acknowledged == put);  // the failed ones were kept in the queue
    CHECK(store->load_trials()[0].steps() == put);
  }
  CHECK(open_sqlite_store(path, StoreMode::open)->load_trials()[0].steps() ==
        put);
}

TEST_CASE("the writer tries again by itself after a full disk") {
  SmallDisk disk("size=2m");
  if (!disk.mounted()) return skip(kNeedsRoot);
  const auto store =
      open_sqlite_store(disk.path() / "study.db", StoreMode::create_or_open);
  store->put_trial(make_trial(1));
  store->flush();
  disk.fill(0);
  std::atomic<bool> acknowledged = false;
  Trial large = make_trial(1);
  large.detail = std::string(200'000, 'x');
  const auto fail = [&] {
    store->put_trial(large);
    store->put_report(1, 1, make_report(1, 0.5), [&] { acknowledged = true; });
    store->flush();
  };
  CHECK_THROWS_AS(fail(), Error);
  CHECK_FALSE(acknowledged);
  disk.make_room();
  CHECK(eventually([&] { return bool{acknowledged}; }));
}

TEST_CASE("no room for a new database is said at once") {
  SmallDisk disk("size=64k");
  if (!disk.mounted()) return skip(kNeedsRoot);
  disk.fill(0);
  try {
    open_sqlite_store(disk.path() / "study.db", StoreMode::create_or_open);
    FAIL("it was made");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::temporary);
    CHECK(std::string(error.what()).find("space") != std::string::npos);
  }
}

}  // namespace dtune
