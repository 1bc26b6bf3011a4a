#include "dtune/store/write_queue.h"

#include <atomic>

#include <doctest/doctest.h>

namespace dtune {
namespace {

WriteOp op(int64_t number, std::function<void()> on_commit = {}) {
  return {Table::event, {number}, {}, std::move(on_commit)};
}

// A database that can be told to fail, and keeps what it was given.
struct Disk {
  std::mutex mutex;
  std::vector<int64_t> written;
  std::vector<size_t> groups;
  bool broken = false;

  WriteQueue::Commit commit() {
    return [this](std::vector<WriteOp>& group) -> std::optional<Error> {
      const std::lock_guard lock(mutex);
      if (broken) throw Error(ErrorKind::temporary, "broken");
      for (const WriteOp& o : group) {
        written.push_back(std::get<int64_t>(o.row[0]));
      }
      groups.push_back(group.size());
      return std::nullopt;
    };
  }
  void set_broken(bool value) {
    const std::lock_guard lock(mutex);
    broken = value;
  }
};

}  // namespace

TEST_CASE("what is queued is written in order, callbacks after it") {
  Disk disk;
  std::vector<int64_t> acknowledged;  // one thread runs the callbacks
  WriteQueue queue(disk.commit());
  for (int64_t n = 0; n < 1000; ++n) {
    queue.push(op(n, [&acknowledged, n] { acknowledged.push_back(n); }));
  }
  queue.flush();
  REQUIRE(disk.written.size() == 1000);
  CHECK(acknowledged == disk.written);
  for (int64_t n = 0; n < 1000; ++n) CHECK(disk.written[size_t(n)] == n);
}

TEST_CASE("what waits for a slow write becomes one group") {
  Disk disk;
  std::mutex gate;
  std::atomic<int> entered = 0;
  WriteQueue queue([&, commit = disk.commit()](auto& group) {
    ++entered;
    const std::lock_guard wait(gate);
    return commit(group);
  });
  {
    const std::lock_guard closed(gate);
    queue.push(op(0));
    while (entered == 0) std::this_thread::yield();
    for (int64_t n = 1; n <= 100; ++n) queue.push(op(n));
  }
  queue.flush();
  CHECK(disk.groups == std::vector<size_t>{1, 100});
}

TEST_CASE("what belongs together is written together, however much it is") {
  constexpr int64_t kMany = 10'000;  // more than a group holds otherwise
  Disk disk;
  WriteQueue queue(disk.commit(), 4);  // nor does a full queue hold it up
  queue.push(op(0));
  queue.begin_group();
  for (int64_t n = 1; n <= kMany; ++n) {
    queue.begin_group();
    queue.push(op(n));
    queue.end_group();
  }
  queue.flush();  // what came before
  {
    const std::lock_guard lock(disk.mutex);
    CHECK(disk.written == std::vector<int64_t>{0});
  }
  queue.end_group();
  queue.push(op(kMany + 1));
  queue.flush();
  CHECK(disk.written.size() == kMany + 2);
  CHECK(disk.groups.at(1) >= kMany);
  queue.begin_group();  // an empty one
  queue.end_group();
  queue.flush();
}

TEST_CASE("a failed group is kept, reported once and written later") {
  Disk disk;
  disk.broken = true;
  std::atomic<int> acknowledged = 0;
  WriteQueue queue(disk.commit());
  const auto push = [&](int64_t n) {
    try {
      queue.push(op(n, [&] { ++acknowledged; }));
    } catch (const Error&) {
      // Queued all the same.
    }
  };
  push(1);
  push(2);
  CHECK_THROWS_WITH_AS(queue.flush(), "broken", Error);
  CHECK(acknowledged == 0);
  disk.set_broken(false);
  for (bool done = false; !done;) {
    try {
      queue.flush();
      done = true;
    } catch (const Error&) {
    }
  }
  push(3);
  queue.flush();
  CHECK(disk.written == std::vector<int64_t>{1, 2, 3});
  CHECK(acknowledged == 3);
  CHECK_NOTHROW(queue.raise());
}

TEST_CASE("a full queue holds up its callers until there is room") {
  Disk disk;
  std::mutex gate;
  std::atomic<bool> all_in = false;
  WriteQueue queue(
      [&, commit = disk.commit()](auto& group) {
        const std::lock_guard wait(gate);
        return commit(group);
      },
      4);
  std::thread caller;
  {
    const std::lock_guard closed(gate);
    caller = std::thread([&] {
      for (int64_t n = 0; n < 20; ++n) queue.push(op(n));
      all_in = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(all_in);
  }
  caller.join();
  queue.flush();
  CHECK(disk.written.size() == 20);
}

TEST_CASE("records left out for good are reported") {
  WriteQueue queue([](const auto&) -> std::optional<Error> {
    return Error(ErrorKind::internal, "bad record");
  });
  const auto put = [&] {
    queue.push(op(1));
    queue.flush();
    queue.raise();
  };
  CHECK_THROWS_WITH_AS(put(), "bad record", Error);
}

TEST_CASE("destroying a queue writes what is left, or gives up") {
  Disk disk;
  {
    WriteQueue queue(disk.commit());
    for (int64_t n = 0; n < 10'000; ++n) queue.push(op(n));
  }
  CHECK(disk.written.size() == 10'000);
  {
    disk.broken = true;
    WriteQueue queue(disk.commit());
    queue.push(op(1));
  }
  CHECK(disk.written.size() == 10'000);
}

}  // namespace dtune
