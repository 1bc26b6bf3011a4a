// Nothing that was acknowledged is lost, whatever happens to the process, and
// two processes never write one study.
#include <set>

#include "store/child.h"
#include "store/records.h"
#include <doctest/doctest.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/store/trial_store.h"

namespace dtune {
namespace {

using test::Child;
using test::make_report;
using test::make_study;
using test::make_trial;
using test::Pipe;

constexpr int kCrashTrials = 8;

// Reports without end, telling through the pipe what was acknowledged.
[[noreturn]] void report_for_ever(const std::filesystem::path& path,
                                  Pipe& acknowledged) {
  const auto store = open_sqlite_store(path, StoreMode::create_or_open);
  store->put_study(make_study());
  for (TrialId id = 1; id <= kCrashTrials; ++id)
    store->put_trial(make_trial(id));
  for (int64_t n = 0;; ++n) {
    const TrialId trial = n % kCrashTrials + 1;
    const auto step = static_cast<int>(n / kCrashTrials) + 1;
    store->put_report(trial, 1, make_report(step, 0.5),
                      [&acknowledged, n] { acknowledged.send(n); });
    if (n % 7 == 0) store->flush();
  }
}

// Numbers of the reports that a store holds, as report_for_ever counts them.
std::set<int64_t> reports_of(TrialStore& store) {
  std::set<int64_t> numbers;
  for (const Trial& trial : store.load_trials()) {
    int expected = 1;
    for (const StepReport& report : trial.curve) {
      CHECK(report.step == expected++);  // no gap, no repeat
      numbers.insert(int64_t{report.step - 1} * kCrashTrials + trial.id - 1);
    }
  }
  return numbers;
}

}  // namespace

TEST_CASE("kill -9 at any time loses nothing that was acknowledged") {
  const TemporaryDirectory folder;
  Rng rng(17);
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const auto path = folder.path() / std::to_string(round);
    Pipe pipe;
    Child child([&] { report_for_ever(path, pipe); });
    pipe.close_writing();
    std::set<int64_t> acknowledged;
    const uint64_t enough = 1 + rng.below(60);
    int64_t number = 0;
    while (acknowledged.size() < enough && pipe.receive(number)) {
      acknowledged.insert(number);
    }
    child.kill_now();
    while (pipe.receive(number)) acknowledged.insert(number);
    REQUIRE(acknowledged.size() >= enough);

    const auto store = open_sqlite_store(path, StoreMode::open);
    const std::set<int64_t> kept = reports_of(*store);
    for (const int64_t n : acknowledged) CHECK(kept.count(n) == 1);
    CHECK(store->load_study()->id == "f00d");
    // And it goes on.
    store->put_report(1, 2, make_report(1, 0.75), nullptr);
    store->flush();
    CHECK(store->load_trials()[0].curve[0].metrics.at("val_accuracy") == 0.75);
  }
}

TEST_CASE("a second writer's error names the first, until that is gone") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  Pipe pipe;
  Child first([&] {
    const auto store = open_sqlite_store(path, StoreMode::create_or_open);
    store->put_study(make_study());
    store->flush();
    pipe.send(1);
    ::pause();
  });
  int64_t ready = 0;
  REQUIRE(pipe.receive(ready));
  for (const StoreMode mode : {StoreMode::create_or_open, StoreMode::open}) {
    try {
      open_sqlite_store(path, mode);
      FAIL("two writers");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::temporary);
      const std::string text = error.what();
      CHECK(text.find(path.string() + ": cannot be opened for writing") == 0);
      CHECK(text.find(std::to_string(first.pid())) != std::string::npos);
    }
  }
  // A viewer is welcome meanwhile.
  CHECK(open_sqlite_store(path, StoreMode::read_only)->load_study()->id ==
        "f00d");
  first.kill_now();
  CHECK(open_sqlite_store(path, StoreMode::open)->load_study()->id == "f00d");
}

TEST_CASE("a reader sees every commit while the writer goes on") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  Pipe pipe;
  Child writer([&] { report_for_ever(path, pipe); });
  pipe.close_writing();
  int64_t number = -1;
  REQUIRE(pipe.receive(number));
  const auto reader = open_sqlite_store(path, StoreMode::read_only);
  size_t before = 0;
  for (int look = 0; look < 20; ++look) {
    const int64_t acknowledged = number;
    const std::set<int64_t> seen = reports_of(*reader);
    CHECK(seen.count(acknowledged) == 1);
    CHECK(seen.size() >= before);
    before = seen.size();
    for (int i = 0; i < 10; ++i) REQUIRE(pipe.receive(number));
  }
}

TEST_CASE("records that are queued are written when a store is destroyed") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "study.db";
  {
    const auto store = open_sqlite_store(path, StoreMode::create_or_open);
    store->put_trial(make_trial(1));
    for (int step = 1; step <= 500; ++step) {
      store->put_report(1, 1, make_report(step, 0.1), nullptr);
    }
  }
  // A clean end leaves one file (and the lock): it can be copied as it is.
  CHECK_FALSE(std::filesystem::exists(path.string() + "-wal"));
  const auto reader = open_sqlite_store(path, StoreMode::read_only);
  CHECK(reader->load_trials()[0].steps() == 500);
}

}  // namespace dtune
