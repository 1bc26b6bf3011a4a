// A part of the terminal that is redrawn in place.
#pragma once

#include <string>
#include <string_view>

namespace dtune {

// Draws on stdout, which must be a terminal. The cursor is hidden while it
// lives and shown again however the process ends (SIGKILL excepted): by the
// destructor, by a fatal signal, and while it is stopped by Ctrl-Z. One at a
// time per process; not thread-safe.
class Screen {
 public:
  Screen();
  ~Screen();  // leaves the last frame where it is
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces the last frame by this text: lines with line ends, none wider than
  // the terminal.
  void draw(std::string_view frame);
  // Writes lines that stay, above the frame.
  void print_above(std::string_view lines);
  // Removes the frame.
  void clear();
  // Shows how much is done, 0..1, on the terminal's tab or in the task bar.
  // Goes with the screen; does nothing where the terminal is not known to show
  // it: some take the sequence for a message.
  void progress(double done);

  // Safe in a signal handler, does nothing where no screen lives.
  static void restore_terminal();

 private:
  std::string erase() const;

  std::string frame_;
  int percent_ = -1;  // shown last; -1: nothing
  int lines_ = 0;     // of the frame, above the cursor
};

}  // namespace dtune
