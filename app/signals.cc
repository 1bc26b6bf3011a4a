#include "app/signals.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "app/screen.h"
#include <unistd.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr std::array kStopping = {SIGINT, SIGTERM, SIGHUP, SIGUSR2};

// A handler can reach nothing but these.
std::atomic<int> stop_count{0};                             // NOLINT
std::atomic<const char*> first_text{""};                    // NOLINT
std::atomic<bool> says_nothing{false};                      // NOLINT
std::atomic<int64_t> last_request{INT64_MIN / 2};           // NOLINT
std::array<struct sigaction, kStopping.size()> old_action;  // NOLINT

static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<int64_t>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

void say(const char* text) {
  if (says_nothing) return;
  // Nothing can be done where stderr is gone.
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text, std::strlen(text));
}

// A process that is to get SIGTERM when its parent dies gets one for every
// thread of that parent: what comes within a second is one request. Ctrl-C
// counts as often as it is pressed.
bool repeats(int signal) {
  if (signal == SIGINT) return false;
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t now = time.tv_sec * kSecond + time.tv_nsec;
  return now - last_request.exchange(now) < kSecond;
}

extern "C" void on_stop_signal(int signal) {
  const int saved = errno;
  if (repeats(signal)) {
    errno = saved;
    return;
  }
  switch (stop_count.fetch_add(1) + 1) {
    case 1:
      say(first_text);
      break;
    case 2:
      say("\nstopping at once\n");
      break;
    default:
      Screen::restore_terminal();
      ::_exit(kExitInterrupted);
  }
  errno = saved;
}

}  // namespace

StopSignals::StopSignals(bool quiet, const char* first) {
  stop_count = 0;
  last_request = INT64_MIN / 2;
  first_text = first;
  says_nothing = quiet;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;  // no SA_RESTART: waits shall end
  for (size_t i = 0; i < kStopping.size(); ++i) {
    ::sigaction(kStopping[i], &action, &old_action[i]);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kStopping.size(); ++i) {
    ::sigaction(kStopping[i], &old_action[i], nullptr);
  }
}

const std::atomic<int>& StopSignals::stop() const { return stop_count; }

}  // namespace dtune
