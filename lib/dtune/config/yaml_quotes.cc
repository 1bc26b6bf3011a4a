#include "dtune/config/yaml_quotes.h"

#include <algorithm>
#include <utility>

namespace dtune {
namespace {

class QuoteScanner {
 public:
  explicit QuoteScanner(const std::string& text) : text_(text) {}

  std::vector<QuotedText> scan() {
    while (at_ < text_.size()) read_token();
    return std::move(found_);
  }

 private:
  void read_token() {
    const char c = text_[at_];
    if (c == '\n') {
      next_line();
      starts_ = true;
    } else if (is_blank(at_)) {
      ++at_;
    } else if (c == '#' && (at_ == line_begin_ || is_blank(at_ - 1))) {
      skip_to_line_end();
    } else if (starts_ && (c == '"' || c == '\'')) {
      read_quoted(c);
      starts_ = false;
    } else if (starts_ && depth_ == 0 && (c == '|' || c == '>')) {
      skip_block();
    } else {
      starts_ = starts_after(c);
      ++at_;
    }
  }

  // Whether a value or key may begin behind this sign.
  bool starts_after(char c) {
    const bool apart =
        at_ + 1 == text_.size() || text_[at_ + 1] == '\n' || is_blank(at_ + 1);
    switch (c) {
      case '[':
      case '{':
        if (!starts_ && depth_ == 0) return false;  // within a word
        ++depth_;
        return true;
      case ']':
      case '}':
        if (depth_ > 0) --depth_;
        return false;
      case ',':
        return depth_ > 0;
      case ':':
        return apart || (depth_ > 0 && at_ > 0 && text_[at_ - 1] == '"');
      case '-':
      case '?':
        return starts_ && apart;
      default:
        return false;
    }
  }

  void read_quoted(char quote) {
    QuotedText found{mark(), {}};
    for (++at_; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        next_line();
        --at_;
      } else if (c == '\\' && quote == '"') {
        if (text_.compare(at_, 2, "\\\n") != 0) ++at_;
      } else if (c == quote && quote == '\'' &&
                 text_.compare(at_, 2, "''") == 0) {
        ++at_;
      } else if (c == quote) {
        found.end = mark();
        ++at_;
        break;
      }
    }
    found_.push_back(found);
  }

  // The lines that are indented more than the one with the block's key.
  void skip_block() {
    const size_t own = indent(line_begin_);
    do {
      skip_to_line_end();
      next_line();
    } while (at_ < text_.size() && (is_empty_line(at_) || indent(at_) > own));
    starts_ = true;
  }

  size_t indent(size_t begin) const {
    const size_t end = text_.find_first_not_of(' ', begin);
    return (end == std::string::npos ? text_.size() : end) - begin;
  }
  bool is_empty_line(size_t begin) const {
    const size_t end = text_.find_first_not_of(" \t\r", begin);
    return end == std::string::npos || text_[end] == '\n';
  }
  bool is_blank(size_t at) const {
    return text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\r';
  }

  void skip_to_line_end() {
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
  // REQUIRES: at a line's end, or at that of the text.
  void next_line() {
    if (at_ < text_.size()) ++at_;
    line_begin_ = at_;
    ++line_;
  }
  Mark mark() const {
    return {.line = line_, .column = static_cast<int>(at_ - line_begin_) + 1};
  }

  const std::string& text_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  int line_ = 1;
  int depth_ = 0;       // of brackets
  bool starts_ = true;  // a value or key may begin here
  std::vector<QuotedText> found_;
};

}  // namespace

std::vector<QuotedText> quoted_texts(const std::string& text) {
  return QuoteScanner(text).scan();
}

}  // namespace dtune
