#include "app/signals.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "app/screen.h"
#include <unistd.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr std::array kStopping = {SIGINT, SIGTERM, SIGHUP};

// A handler can reach nothing but these.
std::atomic<int> stop_count{0};                             // NOLINT
std::atomic<const char*> first_text{""};                    // NOLINT
std::atomic<bool> says_nothing{false};                      // NOLINT
std::array<struct sigaction, kStopping.size()> old_action;  // NOLINT

static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

void say(const char* text) {
  if (says_nothing) return;
  // Nothing can be done where stderr is gone.
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text, std::strlen(text));
}

extern "C" void on_stop_signal(int) {
  const int saved = errno;
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
