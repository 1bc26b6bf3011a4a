// Loaded before the C library into a dtune under test (LD_PRELOAD), where it
// changes two things:
//   DTUNE_TEST_CLOCK=FILE   seconds in FILE are added to the time of day
//   DTUNE_TEST_RENAME=FILE  FILE holds "before TEXT" or "after TEXT": the
//                           process is killed so at the first rename to a name
//                           with TEXT in it; FILE is removed
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

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  kill_if_wanted("before", to);
  const int code = real(from, to);
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
