// What a tuned program says on its stdout.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dtune {

// One line that means something.
struct CommandLine {
  std::optional<int> step;
  std::map<std::string, double> metrics;
  bool invalid = false;  // "dtune: invalid <why>"
  std::string why;
};

// A line is a report if it names the objective ("epoch 3: val_accuracy=0.91"),
// or if it is made of name=number words alone ("step=3 train_loss=0.2"), commas
// and semicolons apart; then every name=number in it counts, step being the
// step. Numbers may be nan or inf; one with a comma inside ("1,234.5", "0,45")
// is none. Empty for all other lines. A step that is no
// number from 1 to 10^9 makes the line none.
std::optional<CommandLine> parse_command_line(std::string_view text,
                                              std::string_view objective);

// Cuts what a program writes into lines; what is longer than a line may be
// (64 KiB) loses its end.
class LineBuffer {
 public:
  void add(std::string_view text);
  // The next whole line without its end, or, with `rest`, what is left.
  std::optional<std::string> next(bool rest = false);

 private:
  static constexpr size_t kMaxLine = size_t{64} << 10;
  std::string text_;
  size_t begin_ = 0;       // of what was not handed out
  bool skipping_ = false;  // the end of a line that was too long
};

}  // namespace dtune
