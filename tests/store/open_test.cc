// What is said of files that are no sound database of this dtune.
#include <fstream>

#include "store/child.h"
#include "store/records.h"
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/store/open_database.h"
#include "dtune/store/schema.h"
#include "dtune/store/trial_store.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using test::Child;
using test::make_report;
using test::make_study;
using test::make_trial;

constexpr StoreMode kEveryMode[] = {StoreMode::create_or_open, StoreMode::open,
                                    StoreMode::read_only};

void make_database(const fs::path& path, int trials = 1) {
  const auto store = open_sqlite_store(path, StoreMode::create_or_open);
  store->put_study(make_study());
  for (TrialId id = 1; id <= trials; ++id) {
    store->put_trial(make_trial(id));
    store->put_report(id, 1, make_report(1, 0.5), nullptr);
  }
}

void write_at(const fs::path& path, std::streamoff offset,
              const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(offset);
  file << bytes;
}

// What opening it in any way says; every way must refuse with this kind.
void check_refused(const fs::path& path, ErrorKind kind,
                   const std::string& words) {
  for (const StoreMode mode : kEveryMode) {
    CAPTURE(static_cast<int>(mode));
    try {
      // Damage may show only when the data are read.
      const auto store = open_sqlite_store(path, mode);
      store->load_trials();
      store->load_events(0);
      FAIL_CHECK("it was opened");
    } catch (const Error& error) {
      CHECK(error.kind() == kind);
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find(path.string() + ": ") == 0);
      CHECK(text.find(words) != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("a missing database is named, and nothing is created") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  for (const StoreMode mode : {StoreMode::open, StoreMode::read_only}) {
    try {
      open_sqlite_store(path, mode);
      FAIL("it was opened");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::data);
      CHECK(std::string(error.what()).find(path.string()) == 0);
      CHECK(std::string(error.what()).find("no such database") !=
            std::string::npos);
    }
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a folder is not a database, and a database needs a folder") {
  const TemporaryDirectory folder;
  check_refused(folder.path(), ErrorKind::data, "is a folder");
  const auto path = folder.path() / "missing" / "study.db";
  CHECK_THROWS_WITH_AS(
      open_sqlite_store(path, StoreMode::create_or_open),
      (path.string() + ": its folder does not exist (create it, or choose "
                       "another place with --db)")
          .c_str(),
      Error);
}

TEST_CASE("a text file is not a database") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  write_file_atomic(path, std::string(5000, 'x'), false);
  check_refused(path, ErrorKind::store, "is not a database of dtune");
  CHECK(read_file(path) == std::string(5000, 'x'));
}

TEST_CASE("a database of another program is left alone") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  {
    Database other(path, DatabaseAccess::create);
    other.execute("CREATE TABLE notes (text)");
  }
  const std::string before = read_file(path);
  check_refused(path, ErrorKind::store, "of another program");
  CHECK(read_file(path) == before);
}

// As on a network disk, where there is no write-ahead log.
TEST_CASE("what a writer that died had not committed is not read") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  const auto dead = folder.path() / "dead.db";
  make_database(path, 20);
  {
    Database writer(path, DatabaseAccess::write);
    CHECK(writer.query_text("PRAGMA journal_mode = truncate") == "truncate");
    writer.execute("PRAGMA cache_size = 1");
    writer.execute("BEGIN IMMEDIATE");
    writer.execute("UPDATE trial SET detail = hex(zeroblob(2000))");
    writer.execute("DELETE FROM report WHERE trial > 3");
    fs::copy_file(path, dead);
    fs::copy_file(path.string() + "-journal", dead.string() + "-journal");
    writer.execute("ROLLBACK");
  }
  const std::string before = read_file(dead);
  REQUIRE(before != read_file(path));
  const auto link = folder.path() / "link.db";
  fs::create_symlink(dead, link);
  for (const fs::path& name : {dead, link}) {
    const auto store = open_sqlite_store(name, StoreMode::read_only);
    const auto trials = store->load_trials();
    REQUIRE(trials.size() == 20);
    for (const Trial& trial : trials) {
      CHECK(trial.steps() == 1);
      CHECK(trial.detail.size() < 1000);
    }
  }
  CHECK(read_file(dead) == before);
}

TEST_CASE("an empty file becomes a database, but holds no study") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  write_file_atomic(path, "", false);
  CHECK_THROWS_AS(open_sqlite_store(path, StoreMode::read_only), Error);
  make_database(path);
  CHECK(open_sqlite_store(path, StoreMode::read_only)->load_study());
}

TEST_CASE("damage is found and salvage explained") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path, 400);
  const auto size = static_cast<std::streamoff>(fs::file_size(path));
  REQUIRE(size > 80'000);
  SUBCASE("a page that was overwritten") {
    for (std::streamoff at = 4096; at + 4096 < size; at += 8192) {
      write_at(path, at, std::string(4096, '\xa5'));
    }
  }
  SUBCASE("a page that nothing is read from") {
    const int64_t page = Database(path, DatabaseAccess::read)
                             .query_number(
                                 "SELECT rootpage FROM sqlite_master "
                                 "WHERE name = 'decision'");
    write_at(path, (page - 1) * 4096, std::string(2000, '\xa5'));
  }
  SUBCASE("a file that was cut") {
    fs::resize_file(path, static_cast<uintmax_t>(size / 2));
  }
  SUBCASE("a file that was cut in its first page") {
    fs::resize_file(path, 1000);
  }
  check_refused(path, ErrorKind::store, ".recover");
}

TEST_CASE("a newer database says which dtune wrote it") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  {
    Database database(path, DatabaseAccess::write);
    database.execute("PRAGMA user_version = 1000");
    database.execute("INSERT INTO schema_history VALUES (1000, '9.8.7', 0)");
  }
  check_refused(path, ErrorKind::store, "was written by a newer dtune, 9.8.7");
}

TEST_CASE("words of a newer dtune are refused, not guessed") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  Database(path, DatabaseAccess::write)
      .execute("UPDATE trial SET state = 'levitating'");
  const auto store = open_sqlite_store(path, StoreMode::read_only);
  CHECK_THROWS_AS(store->load_trials(), Error);
}

TEST_CASE("an older database is brought up to date step by step") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  // Today's schema plays the older one.
  const auto today = schema_migrations();
  const int64_t now = today.back().version;
  std::vector<Migration> later(today.begin(), today.end());
  later.push_back({now + 1,
                   "ALTER TABLE trial ADD COLUMN mood TEXT NOT NULL DEFAULT "
                   "'calm'"});
  later.push_back({now + 2, "UPDATE trial SET mood = 'glad'"});
  Database database(path, DatabaseAccess::write);
  CHECK_THROWS_WITH_AS(
      check_version(database, later),
      fmt::format("{}: was written by an older dtune (its schema is version "
                  "{}, this dtune needs {}: 'dtune resume' upgrades it)",
                  path.string(), now, now + 2)
          .c_str(),
      Error);
  migrate(database, later);
  CHECK(database.query_number("PRAGMA user_version") == now + 2);
  CHECK(database.query_text("SELECT mood FROM trial") == "glad");
  CHECK(database.query_number("SELECT count(*) FROM schema_history") ==
        now + 2);
  migrate(database, later);  // again: nothing
  check_version(database, later);
}

TEST_CASE("a database of the first version is numbered, and can be read") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "it's old.db";
  {
    Database database(path, DatabaseAccess::create);
    migrate(database, schema_migrations().first(1));
    database.execute(
        "INSERT INTO study VALUES (1, 'f00d', 'old', '', '', '', 'finished', "
        "5, 1.0, 1, 0, 0.0, 0, '', 'val_accuracy', 'maximize')");
    for (const char* trial : {"1", "2"}) {
      database.execute(fmt::format(
          "INSERT INTO trial VALUES ({0}, 'search', '{{}}', '[]', 1, "
          "'complete', 'horizon', '', 1, 0, 2, '', 0, 1, 1, 1, '', 0, 2, 0, "
          "NULL); INSERT INTO report VALUES ({0}, 2, 1, '{{}}', 1, 0, 0), "
          "({0}, 1, 1, '{{}}', 1, 0, 0); INSERT INTO event VALUES ({0}, {0}, "
          "1, 'complete', 'horizon', '', 1); INSERT INTO decision VALUES "
          "({0}, {0}, 'complete', 2, '', 1)",
          trial));
    }
  }
  const std::string before = read_file(path);
  const auto look = [&](StoreMode mode) {
    const auto store = open_sqlite_store(path, mode);
    const std::vector<Trial> trials = store->load_trials();
    REQUIRE(trials.size() == 2);
    CHECK(trials[0].curve.at(1).sequence == 2);
    CHECK(trials[1].curve.at(0).sequence == 3);
    CHECK(store->load_study()->sessions == 0);
    const StudyRecords records = store->load_records();
    CHECK(records.decisions.at(1).after_report == -1);
    CHECK(records.decisions.at(1).maker == DecisionMaker::unknown);
    CHECK(records.events.at(1).after_report == -1);
    CHECK(records.events.at(1).slot == -1);
    CHECK_FALSE(records.decisions.at(1).belief.forecast);
    CHECK(records.ranks.empty());
  };
  look(StoreMode::read_only);  // through a copy
  CHECK(read_file(path) == before);
  look(StoreMode::open);
  Database database(path, DatabaseAccess::read);
  CHECK(database.query_number("PRAGMA user_version") ==
        schema_migrations().back().version);
}

TEST_CASE("a migration that fails changes nothing") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  const auto today = schema_migrations();
  const int64_t now = today.back().version;
  std::vector<Migration> broken(today.begin(), today.end());
  broken.push_back(
      {now + 1, "ALTER TABLE trial ADD COLUMN mood TEXT; SELECT nonsense;"});
  Database database(path, DatabaseAccess::write);
  CHECK_THROWS_AS(migrate(database, broken), Error);
  CHECK(database.autocommit());
  CHECK(database.query_number("PRAGMA user_version") == now);
  CHECK_THROWS_AS(database.execute("SELECT mood FROM trial"), Error);
}

TEST_CASE("a store for reading refuses to write") {
  const TemporaryDirectory folder;
  make_database(folder.path() / "study.db");
  const auto store =
      open_sqlite_store(folder.path() / "study.db", StoreMode::read_only);
  CHECK_THROWS_AS(store->put_trial(make_trial(2)), Error);
  CHECK_NOTHROW(store->flush());
}

TEST_CASE("a study in a folder that cannot be written can be looked at") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "a #study?.db";
  SUBCASE("finished") { make_database(path); }
  SUBCASE("left by a writer that was killed") {
    Child writer([&] {
      const auto store = open_sqlite_store(path, StoreMode::create_or_open);
      store->put_study(make_study());
      store->put_trial(make_trial(1));
      store->put_report(1, 1, make_report(1, 0.5), nullptr);
      store->flush();
      ::kill(::getpid(), SIGKILL);
    });
    writer.wait();
    REQUIRE(fs::exists(path.string() + "-wal"));
    fs::remove(path.string() + "-shm");
  }
  fs::permissions(folder.path(), fs::perms(0555));
  // Permissions do not bind root: look as the user nobody.
  Child viewer([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(3);
    const auto store = open_sqlite_store(path, StoreMode::read_only);
    const bool all = store->load_study()->id == "f00d" &&
                     store->load_trials().at(0).steps() == 1;
    ::_exit(all ? 0 : 4);
  });
  CHECK(viewer.wait() == 0);
  Child writer([&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(3);
    try {
      open_sqlite_store(path, StoreMode::open);
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("permission") != std::string::npos
                  ? 0
                  : 4);
    }
    ::_exit(5);
  });
  CHECK(writer.wait() == 0);
  fs::permissions(folder.path(), fs::perms(0755));
}

TEST_CASE("a study has one writer, whichever link leads to it") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  fs::create_symlink(path, folder.path() / "link.db");
  fs::create_directory_symlink(folder.path(), folder.path() / "folder");
  {
    const auto store = open_sqlite_store(path, StoreMode::open);
    for (const auto& other :
         {folder.path() / "link.db", folder.path() / "folder" / "study.db"}) {
      CAPTURE(other.string());
      CHECK_THROWS_AS(open_sqlite_store(other, StoreMode::open), Error);
    }
  }
  CHECK(open_sqlite_store(folder.path() / "link.db", StoreMode::open)
            ->load_study());
  fs::create_symlink("nothing.db", folder.path() / "dangling.db");
  CHECK_THROWS_AS(open_sqlite_store(folder.path() / "dangling.db",
                                    StoreMode::create_or_open),
                  Error);
}

TEST_CASE("a database with two names is not written") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  fs::create_hard_link(path, folder.path() / "other.db");
  for (const char* name : {"study.db", "other.db"}) {
    try {
      open_sqlite_store(folder.path() / name, StoreMode::open);
      FAIL_CHECK("it was opened");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::data);
      CHECK(std::string(error.what()).find("hard link") != std::string::npos);
    }
  }
}

TEST_CASE("a writer that another has replaced commits nothing any more") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  make_database(path);
  StudyRow row = make_study();
  const auto first = open_sqlite_store(path, StoreMode::open);
  row.sessions = 4;
  first->put_study(row);
  first->flush();
  // As if the lock had not held: its file was deleted.
  fs::remove(path.string() + "-lock");
  const auto second = open_sqlite_store(path, StoreMode::open);
  first->put_report(1, 1, make_report(2, 0.6), nullptr);
  first->flush();  // nothing has changed hands yet
  row.sessions = 5;
  second->put_study(row);
  second->flush();
  bool acknowledged = false;
  const auto put = [&] {
    first->put_report(1, 1, make_report(3, 0.7), [&] { acknowledged = true; });
    first->flush();
  };
  try {
    put();
    FAIL_CHECK("it was written");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::study);
    CHECK(std::string(error.what()).find("another process") !=
          std::string::npos);
  }
  CHECK_FALSE(acknowledged);
  second->put_report(1, 1, make_report(3, 0.8), nullptr);
  second->flush();
  CHECK(second->load_trials().front().steps() == 3);
}

TEST_CASE("file systems of other machines are known by their numbers") {
  CHECK(is_network_file_system(0x6969));
  CHECK(is_network_file_system(static_cast<int32_t>(0xff534d42)));
  CHECK_FALSE(is_network_file_system(0xef53));      // ext4
  CHECK_FALSE(is_network_file_system(0x01021994));  // tmpfs
}

}  // namespace dtune
