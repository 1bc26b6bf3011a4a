#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/data/prepared.h"
#include "dtune/data/prepared_format.h"
#include "dtune/data/prepared_writer.h"
#include "dtune/data/source.h"
#include "dtune/data/split.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

uint64_t bits_of(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Everything of the spec that changes what is written.
uint64_t spec_key(const DataSpec& spec) {
  return mix_seed({kPreparedVersion, uint64_t(spec.kind),
                   bits_of(spec.validation), bits_of(spec.test),
                   spec.split_seed, uint64_t(spec.limit), uint64_t(spec.height),
                   uint64_t(spec.width), uint64_t(spec.gray),
                   uint64_t(spec.classes), uint64_t(spec.channels),
                   uint64_t(spec.samples), bits_of(spec.difficulty)});
}

uint64_t cache_key(const DataSpec& spec) {
  uint64_t key = spec_key(spec);
  for (const fs::path& file : source_files(spec)) {
    const auto changed = fs::last_write_time(file).time_since_epoch().count();
    key = mix_seed({key, hash_text(fs::absolute(file).string()),
                    fs::file_size(file), uint64_t(changed)});
  }
  return key;
}

// Waits for its turn; the kernel releases the lock when a holder dies, however
// it dies. FileLock gives up at once, where here the other's work is wanted.
class TurnLock {
 public:
  explicit TurnLock(const fs::path& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail(path, errno);
    const int code = wait();
    if (code == 0) return;
    ::close(descriptor_);
    fail(path, code);
  }
  ~TurnLock() { ::close(descriptor_); }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

 private:
  // 0 or an errno; EWOULDBLOCK after an hour.
  int wait() const {
    constexpr auto kPause = std::chrono::milliseconds(20);
    constexpr auto kLongest = std::chrono::hours(1);
    for (auto waited = kPause * 0; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0;
         waited += kPause) {
      const int code = errno;
      const bool held = code == EWOULDBLOCK || code == EINTR;
      if (!held || waited > kLongest) return code;
      std::this_thread::sleep_for(kPause);
    }
    return 0;
  }

  [[noreturn]] static void fail(const fs::path& path, int code) {
    if (code == EWOULDBLOCK) {
      throw Error(ErrorKind::temporary,
                  fmt::format("{}: another process has been preparing the same "
                              "data for an hour (end it and try again)",
                              path.string()));
    }
    const bool full = code == ENOSPC || code == EDQUOT;
    throw Error(full ? ErrorKind::temporary : ErrorKind::data,
                fmt::format("{}: cannot be locked: {} (set XDG_CACHE_HOME to a "
                            "folder that can be written)",
                            path.string(), errno_text(code)));
  }

  int descriptor_;
};

void create_cache(const fs::path& cache) {
  std::error_code error;
  fs::create_directories(cache, error);
  if (!error) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: cannot be created: {} (set XDG_CACHE_HOME to a "
                          "folder that can be written)",
                          cache.string(), error.message()));
}

}  // namespace

fs::path prepare_data(const DataSpec& spec, const fs::path& cache) {
  try {
    const uint64_t key = cache_key(spec);
    create_cache(cache);
    const std::string name =
        fmt::format("{}-{:016x}", to_string(spec.kind), key);
    fs::path path = cache / (name + ".data");
    if (is_prepared(path, key)) return path;
    const TurnLock turn(cache / (name + ".lock"));
    if (is_prepared(path, key)) return path;  // another process made it
    const SourceData source = open_source(spec);
    write_prepared(path, source, plan_splits(spec, source), key);
    return path;
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorKind::data,
                fmt::format("{}: cannot be read: {}", error.path1().string(),
                            error.code().message()));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::temporary,
                fmt::format("{}: not enough memory to prepare the data (stop "
                            "other programs, or use a smaller image size)",
                            source_path(spec).string()));
  }
}

}  // namespace dtune
