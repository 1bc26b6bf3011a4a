// Loaded before the C library into a dtune under test (LD_PRELOAD), where it
// changes these things:
//   DTUNE_TEST_CLOCK=FILE   seconds in FILE are added to the time of day
//   DTUNE_TEST_RENAME=FILE  FILE holds "before TEXT" or "after TEXT": the
//                           process is killed so at the first rename to a name
//                           with TEXT in it; FILE is removed
//   DTUNE_TEST_DISK=FILE    "sync NAME" and "rename NAME" are appended to FILE
//                           for each fsync, and each file that got its name
//   DTUNE_TEST_FORK=FILE    as many forks as FILE says fail with EAGAIN; what is
//                           left of them is written there
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dlfcn.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace {

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The first line of the file that a variable names; "" where there is none.
void first_line(const char* variable, char (&line)[256]) {
  line[0] = '\0';
  const char* path = ::getenv(variable);
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "re");
  if (file == nullptr) return;
  if (std::fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
  std::fclose(file);
  line[std::strcspn(line, "\n")] = '\0';
}

time_t clock_offset() {
  char line[256];
  first_line("DTUNE_TEST_CLOCK", line);
  return static_cast<time_t>(std::strtol(line, nullptr, 10));
}

void kill_if_wanted(const char* when, const char* target) {
  char line[256];
  first_line("DTUNE_TEST_RENAME", line);
  char* text = std::strchr(line, ' ');
  if (text == nullptr) return;
  *text++ = '\0';
  if (std::strcmp(line, when) != 0) return;
  if (std::strstr(target, text) == nullptr) return;
  if (::unlink(::getenv("DTUNE_TEST_RENAME")) == 0) ::raise(SIGKILL);
}

void note(const char* what, const char* name) {
  const char* path = ::getenv("DTUNE_TEST_DISK");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "ae");
  if (file == nullptr) return;
  std::fprintf(file, "%s %s\n", what, name);
  std::fclose(file);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  static const auto real = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int code = real(clock, time);
  if (code == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_offset();
  return code;
}

extern "C" int gettimeofday(timeval* time, void* zone) noexcept {
  static const auto real = next<int (*)(timeval*, void*)>("gettimeofday");
  const int code = real(time, zone);
  if (code == 0) time->tv_sec += clock_offset();
  return code;
}

extern "C" int fsync(int file) {
  static const auto real = next<int (*)(int)>("fsync");
  char link[64];
  char name[4096] = "";
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = ::readlink(link, name, sizeof name - 1);
  name[size > 0 ? size : 0] = '\0';
  note("sync", name);
  return real(file);
}

extern "C" pid_t fork() noexcept {
  static const auto real = next<pid_t (*)()>("fork");
  char line[256];
  first_line("DTUNE_TEST_FORK", line);
  const long left = std::strtol(line, nullptr, 10);
  if (left <= 0) return real();
  if (std::FILE* file = std::fopen(::getenv("DTUNE_TEST_FORK"), "we")) {
    std::fprintf(file, "%ld\n", left - 1);
    std::fclose(file);
  }
  errno = EAGAIN;
  return -1;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  kill_if_wanted("before", to);
  const int code = real(from, to);
  if (code == 0) note("rename", to);
  kill_if_wanted("after", to);
  return code;
}

// DTUNE_TEST_NFS: every disk is a network disk.
extern "C" int statfs(const char* path, struct statfs* info) noexcept {
  static const auto real = next<int (*)(const char*, struct statfs*)>("statfs");
  const int code = real(path, info);
  if (code == 0 && ::getenv("DTUNE_TEST_NFS") != nullptr) info->f_type = 0x6969;
  return code;
}
