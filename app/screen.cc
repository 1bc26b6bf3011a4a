#include "app/screen.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace dtune {
namespace {

constexpr std::string_view kHide = "\x1b[?25l";
constexpr std::string_view kShow = "\x1b[?25h";
// "Synchronized update" (terminals that do not know it ignore it): the frame
// appears in one piece.
constexpr std::string_view kBegin = "\x1b[?2026h";
constexpr std::string_view kEnd = "\x1b[?2026l";

// ConEmu's progress, which several terminals took over.
constexpr std::string_view kNoProgress = "\x1b]9;4;0\x1b\\";

constexpr std::array kFatal = {SIGSEGV, SIGABRT, SIGBUS,
                               SIGFPE,  SIGILL,  SIGQUIT};

// A handler can reach nothing but these.
std::atomic<bool> cursor_hidden{false};                       // NOLINT
std::atomic<bool> progress_shown{false};                      // NOLINT
std::atomic<bool> continued{false};                           // NOLINT
std::array<struct sigaction, kFatal.size() + 1> old_actions;  // NOLINT

void write_terminal(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a terminal that is gone shows nothing
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

bool shows_progress() {
  const auto is = [](const char* variable, std::string_view wanted) {
    const char* value = std::getenv(variable);
    return value != nullptr && (wanted.empty() || value == wanted);
  };
  return is("WT_SESSION", "") || is("ConEmuANSI", "ON") ||
         is("TERM_PROGRAM", "WezTerm") || is("TERM_PROGRAM", "ghostty") ||
         is("TERM", "xterm-ghostty");
}

extern "C" void on_fatal_signal(int signal) {
  Screen::restore_terminal();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// Ctrl-Z: stops with the cursor shown, goes on with a fresh frame.
extern "C" void on_terminal_stop(int) {
  const int saved = errno;
  write_terminal(kShow);
  ::raise(SIGSTOP);
  write_terminal(kHide);
  continued = true;
  errno = saved;
}

}  // namespace

Screen::Screen() {
  struct sigaction action {};
  action.sa_handler = on_fatal_signal;
  for (size_t i = 0; i < kFatal.size(); ++i) {
    ::sigaction(kFatal[i], &action, &old_actions[i]);
  }
  action.sa_handler = on_terminal_stop;
  ::sigaction(SIGTSTP, &action, &old_actions.back());
  cursor_hidden = true;
  write_terminal(kHide);
}

Screen::~Screen() {
  restore_terminal();
  for (size_t i = 0; i < kFatal.size(); ++i) {
    ::sigaction(kFatal[i], &old_actions[i], nullptr);
  }
  ::sigaction(SIGTSTP, &old_actions.back(), nullptr);
}

void Screen::progress(double done) {
  static const bool shown = shows_progress();
  const int percent = static_cast<int>(std::clamp(done, 0.0, 1.0) * 100);
  if (!shown || percent == percent_) return;
  percent_ = percent;
  progress_shown = true;
  write_terminal(fmt::format("\x1b]9;4;1;{}\x1b\\", percent));
}

void Screen::restore_terminal() {
  if (progress_shown.exchange(false)) write_terminal(kNoProgress);
  if (cursor_hidden.exchange(false)) write_terminal(kShow);
}

std::string Screen::erase() const {
  // To the frame's first column, then clear to the end of the screen.
  return lines_ > 0 ? fmt::format("\r\x1b[{}A\x1b[J", lines_) : "\r\x1b[J";
}

void Screen::draw(std::string_view frame) {
  const bool moved = continued.exchange(false);
  if (moved) lines_ = 0;  // the shell wrote below it
  if (frame == frame_ && !moved) return;
  write_terminal(fmt::format("{}{}{}{}", kBegin, erase(), frame, kEnd));
  frame_ = frame;
  lines_ = static_cast<int>(std::count(frame.begin(), frame.end(), '\n'));
}

void Screen::print_above(std::string_view lines) {
  write_terminal(
      fmt::format("{}{}{}{}{}", kBegin, erase(), lines, frame_, kEnd));
}

void Screen::clear() {
  write_terminal(erase());
  frame_.clear();
  lines_ = 0;
}

}  // namespace dtune
