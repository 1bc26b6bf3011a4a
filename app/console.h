// Where a command writes: results to stdout, everything else to stderr.
#pragma once

#include <string>
#include <string_view>

#include "dtune/base/error.h"
#include "dtune/report/text.h"

namespace dtune {

// Thread-compatible; cheap to copy.
struct Console {
  bool json = false;          // results are JSON
  bool quiet = false;         // no notices
  bool out_terminal = false;  // stdout is a terminal
  bool err_terminal = false;
  bool out_color = false;  // and may be coloured (NO_COLOR, TERM=dumb)
  bool err_color = false;

  // Looks at the process's stdout, stderr and environment.
  static Console standard(bool json);

  void print(std::string_view text) const;  // stdout, as it is
  void line(std::string_view text) const;   // stdout, with a line end
  // stderr; with quiet: nowhere.
  void notice(std::string_view text) const;
  void warning(std::string_view text) const;
  // "error: ..." on stderr and, with json, an object on stdout.
  void error(const Error& error) const;
};

// Columns and rows of the terminal behind stdout; 80 x 24 where unknown.
struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
TerminalSize terminal_size();

// Stdout is a terminal whose cursor can be moved (TERM is not "dumb").
bool can_redraw(const Console& console);

// The locale's character set is UTF-8.
bool locale_is_utf8();

// How texts for stdout may look.
TextStyle style_of(const Console& console);

}  // namespace dtune
