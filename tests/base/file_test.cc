#include "dtune/base/file.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "skip.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/descriptor.h"
#include "dtune/base/error.h"

using namespace dtune;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

namespace {

// The error of what `action` does: kind and text.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string text = "no error";
};
template <typename Action>
Failure failure_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

size_t count_files(const fs::path& folder) {
  return size_t(std::distance(fs::directory_iterator(folder), {}));
}

// A process that runs `action`, then waits to be killed.
class Child {
 public:
  template <typename Action>
  explicit Child(Action action) {
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      action([&] { (void)!::write(pipe_ends[1], "x", 1); });
      while (true) ::pause();
    }
    char ready = 0;
    REQUIRE(::read(pipe_ends[0], &ready, 1) == 1);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

// A small file system of its own; not there without the right to mount one.
class TinyFileSystem {
 public:
  TinyFileSystem() {
    mounted_ =
        ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=64k") == 0;
  }
  ~TinyFileSystem() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  TinyFileSystem(const TinyFileSystem&) = delete;
  TinyFileSystem& operator=(const TinyFileSystem&) = delete;

  bool mounted() const { return mounted_; }
  const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryDirectory folder_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("a file is written and read back, any bytes") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  std::string bytes(100'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = char(i * 7);
  for (const bool durable : {false, true}) {
    write_file_atomic(path, bytes, durable);
    CHECK(read_file(path) == bytes);
  }
  write_file_atomic(path, "", false);
  CHECK(read_file(path).empty());
  CHECK(count_files(folder.path()) == 1);
}

TEST_CASE("a durable write to a bare name syncs the current folder") {
  const TemporaryDirectory folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  write_file_atomic("bare", "x", true);
  CHECK(read_file("bare") == "x");
  fs::current_path(before);
}

TEST_CASE("a pipe or a device is written to, not replaced") {
  const TemporaryDirectory folder;
  const fs::path pipe = folder.path() / "pipe";
  const fs::path link = folder.path() / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink(pipe, link);
  const Descriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  for (const fs::path& path : {pipe, link}) {
    write_file_atomic(path, "text", true);
    std::array<char, 8> read{};
    CHECK(::read(reader.get(), read.data(), read.size()) == 4);
    CHECK(std::string(read.data()) == "text");
  }
  CHECK(fs::is_fifo(pipe));
  CHECK(fs::is_symlink(link));
}

TEST_CASE("a missing file says so and what to check") {
  const Failure failure = failure_of([] { read_file("/nowhere/at/all"); });
  CHECK(failure.kind == ErrorKind::data);
  CHECK(failure.text ==
        "/nowhere/at/all: cannot be opened: No such file or directory (check "
        "the path)");
}

TEST_CASE("a folder or a device is not a regular file") {
  const TemporaryDirectory folder;
  CHECK(failure_of([&] { read_file(folder.path()); }).text ==
        folder.path().string() + ": is not a regular file");
  CHECK(failure_of([] { read_file("/dev/zero"); }).text ==
        "/dev/zero: is not a regular file");
  CHECK(failure_of([&] { MappedFile file(folder.path()); }).text ==
        folder.path().string() + ": is not a regular file");
}

TEST_CASE("a pipe is refused at once, not waited for") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(failure_of([&] { read_file(path); }).text ==
        path.string() + ": is not a regular file");
}

TEST_CASE("a file longer than allowed is not read") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  write_file_atomic(path, "12345", false);
  CHECK(read_file(path, 5) == "12345");
  const Failure failure = failure_of([&] { read_file(path, 4); });
  CHECK(failure.kind == ErrorKind::data);
  CHECK(failure.text ==
        path.string() + ": is 5 bytes long; at most 4 are read");
}

TEST_CASE("an unreadable file names its permissions") {
  if (::geteuid() == 0) return skip("root may read everything");
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "secret";
  write_file_atomic(path, "x", false);
  fs::permissions(path, fs::perms::none);
  CHECK(failure_of([&] { read_file(path); }).text.find("(check its permis") !=
        std::string::npos);
}

TEST_CASE("readers see the old or the new content while a file is replaced") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  const std::string old_text(50'000, 'a');
  const std::string new_text(70'000, 'b');
  write_file_atomic(path, old_text, false);
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) {
      write_file_atomic(path, i % 2 == 0 ? new_text : old_text, false);
    }
  });
  int torn = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string text = read_file(path);
    if (text != old_text && text != new_text) ++torn;
  }
  writer.join();
  CHECK(torn == 0);
}

TEST_CASE("threads that write one file do not spoil each other's") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&path, t] {
      const std::string text(20'000 + size_t(t), char('a' + t));
      for (int i = 0; i < 25; ++i) write_file_atomic(path, text, false);
    });
  }
  for (std::thread& writer : writers) writer.join();
  const std::string text = read_file(path);
  const int writer = text.at(0) - 'a';
  CHECK(text == std::string(20'000 + size_t(writer), text[0]));
  CHECK(count_files(folder.path()) == 1);
}

TEST_CASE("a folder that is not there cannot hold a file") {
  const TemporaryDirectory folder;
  const Failure failure = failure_of(
      [&] { write_file_atomic(folder.path() / "no" / "file", "x", false); });
  CHECK(failure.kind == ErrorKind::data);
  CHECK(failure.text.find("cannot be created: No such file") !=
        std::string::npos);
  // The file that was asked for is named, not the temporary one.
  CHECK(failure.text.starts_with((folder.path() / "no/file").string() + ": "));
}

TEST_CASE("a target that is a folder is left alone, nothing stays behind") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "target";
  fs::create_directory(path);
  const Failure failure =
      failure_of([&] { write_file_atomic(path, "x", false); });
  CHECK(failure.text.find("cannot be replaced") != std::string::npos);
  CHECK(count_files(folder.path()) == 1);
}

TEST_CASE("a full disk is temporary and leaves the old content") {
  const TinyFileSystem disk;
  if (!disk.mounted()) return skip("mounting a small file system needs root");
  const fs::path path = disk.path() / "file";
  write_file_atomic(path, "old", true);
  for (const bool durable : {false, true}) {
    const Failure failure = failure_of(
        [&] { write_file_atomic(path, std::string(1 << 20, 'x'), durable); });
    CHECK(failure.kind == ErrorKind::temporary);
    CHECK(failure.text.find("No space left on device (free some space and try "
                            "again)") != std::string::npos);
    CHECK(read_file(path) == "old");
    CHECK(count_files(disk.path()) == 1);
  }
  CHECK(free_bytes(disk.path() / "new" / "folder") < 64 * 1024);
}

TEST_CASE("a mapped file shows its bytes and survives its removal") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  write_file_atomic(path, "hello", false);
  MappedFile file(path);
  fs::remove(path);
  MappedFile moved(std::move(file));
  REQUIRE(moved.bytes().size() == 5);
  CHECK(std::memcmp(moved.bytes().data(), "hello", 5) == 0);
}

TEST_CASE("an empty file maps to no bytes, a missing one is an error") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "file";
  write_file_atomic(path, "", false);
  CHECK(MappedFile(path).bytes().empty());
  CHECK(failure_of([&] { MappedFile file(path / "x"); }).kind ==
        ErrorKind::data);
}

TEST_CASE("a lock held by another process names it") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "lock";
  Child child([&](auto ready) {
    const FileLock lock(path);
    ready();
    while (true) ::pause();
  });
  const Failure failure = failure_of([&] { FileLock lock(path); });
  CHECK(failure.kind == ErrorKind::temporary);
  CHECK(failure.text ==
        fmt::format("{}: is held by process {} (wait until it ends, or stop "
                    "it)",
                    path.string(), child.pid()));
}

TEST_CASE("a lock is free once its holder is killed") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "lock";
  Child child([&](auto ready) {
    const FileLock lock(path);
    ready();
    while (true) ::pause();
  });
  child.kill();
  const FileLock lock(path);
  CHECK(read_file(path) == fmt::format("{}\n", ::getpid()));
}

TEST_CASE("a lock is free once it goes out of scope") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "lock";
  { const FileLock lock(path); }
  CHECK_NOTHROW(FileLock{path});
}

TEST_CASE("a lock that cannot be opened says why") {
  CHECK(failure_of([] {
          FileLock lock("/nowhere/lock");
        }).text.find("/nowhere/lock: cannot be locked: No such file") == 0);
}

TEST_CASE("a temporary folder is removed with all that is in it") {
  fs::path path;
  {
    const TemporaryDirectory folder("dtune-test");
    path = folder.path();
    fs::create_directories(path / "a" / "b");
    write_file_atomic(path / "a" / "b" / "c", "x", false);
    CHECK(path.filename().string().starts_with("dtune-test-"));
  }
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("the cache folder follows the environment") {
  const auto with = [](const char* cache, const char* home) {
    const std::string old_cache =
        std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    const std::string old_home = std::getenv("HOME") ? std::getenv("HOME") : "";
    ::setenv("XDG_CACHE_HOME", cache, 1);
    ::setenv("HOME", home, 1);
    fs::path result;
    std::exception_ptr problem;
    try {
      result = cache_directory();
    } catch (const Error&) {
      problem = std::current_exception();
    }
    ::setenv("XDG_CACHE_HOME", old_cache.c_str(), 1);
    ::setenv("HOME", old_home.c_str(), 1);
    if (problem) std::rethrow_exception(problem);
    return result;
  };
  const TemporaryDirectory home("dtune-test");
  const char* me = home.path().c_str();
  CHECK(with("/x/cache", me) == "/x/cache/dtune");
  CHECK(with("", me) == home.path() / ".cache/dtune");
  CHECK(with("relative", me) == home.path() / ".cache/dtune");
  CHECK(with("", "").parent_path() == fs::temp_directory_path());
  // A home that cannot be written, not by root either.
  CHECK(with("", "/dev/null").parent_path() == fs::temp_directory_path());
  // A folder that another user could have put there.
  const TemporaryDirectory shared("dtune-test");
  const fs::path ours = shared.path() / fmt::format("dtune-{}", ::getuid());
  const char* temporary = std::getenv("TMPDIR");
  const std::string before = temporary != nullptr ? temporary : "/tmp";
  ::setenv("TMPDIR", shared.path().c_str(), 1);
  fs::create_directory_symlink(home.path(), ours);
  CHECK_THROWS_AS(with("", "/dev/null"), Error);
  fs::remove(ours);
  fs::create_directory(ours);
  CHECK(with("", "/dev/null") == ours);
  fs::permissions(ours, fs::perms::all);
  CHECK_THROWS_AS(with("", "/dev/null"), Error);
  ::setenv("TMPDIR", before.c_str(), 1);
}

TEST_CASE("the program knows its folder") {
  CHECK(fs::exists(executable_directory() / "base_test"));
}
