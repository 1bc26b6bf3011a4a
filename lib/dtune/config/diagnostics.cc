#include "dtune/config/diagnostics.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr size_t kMaxShown = 20;

std::tuple<int, int, int> place_of(const Mark& mark) {
  return {mark.source, mark.line, mark.column};
}

bool continues_character(char c) { return (c & 0xc0) == 0x80; }

// Characters before byte `column` (1-based) of a UTF-8 line.
size_t characters_before(const std::string& line, int column) {
  const size_t end = std::min(line.size(), static_cast<size_t>(column - 1));
  return end - static_cast<size_t>(std::count_if(
                   line.begin(), line.begin() + static_cast<long>(end),
                   continues_character));
}

std::string join(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  const size_t shown = std::min(kMaxShown, diagnostics.size());
  for (size_t i = 0; i < shown; ++i) {
    const Diagnostic& one = diagnostics[i];
    if (!text.empty()) text += '\n';
    text += one.where + ": " + one.message;
    if (!one.excerpt.empty()) text += '\n' + one.excerpt;
  }
  if (shown < diagnostics.size()) {
    text += fmt::format("\n... and {} more", diagnostics.size() - shown);
  }
  return text;
}

}  // namespace

RecipeError::RecipeError(std::vector<Diagnostic> diagnostics)
    : Error(ErrorKind::config, join(diagnostics)),
      diagnostics_(std::move(diagnostics)) {}

std::vector<std::string> Sources::split_lines(const std::string& text) {
  std::vector<std::string> lines;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    start = end + 1;
  }
  return lines;
}

std::string Sources::where(const Mark& mark) const {
  if (mark.source > 0) {
    return "--set " + overrides.at(static_cast<size_t>(mark.source) - 1);
  }
  if (mark.line < 1) return name;
  size_t column = static_cast<size_t>(mark.column);
  if (static_cast<size_t>(mark.line) <= lines.size()) {
    column = characters_before(lines[mark.line - 1], mark.column) + 1;
  }
  return fmt::format("{}:{}:{}", name, mark.line, column);
}

std::string Sources::excerpt(const Mark& mark) const {
  const bool has_line = mark.source == 0 && mark.line >= 1 &&
                        static_cast<size_t>(mark.line) <= lines.size();
  if (!has_line || mark.column < 1) return "";
  std::string line = lines[mark.line - 1];
  size_t caret = std::min(line.size(), static_cast<size_t>(mark.column - 1));
  // Long lines: what stands around the caret.
  constexpr size_t kBefore = 60;
  constexpr size_t kShown = 100;
  size_t from = caret > kBefore ? caret - kBefore : 0;
  while (from > 0 && continues_character(line[from])) --from;
  size_t to = std::min(line.size(), from + kShown);
  while (to < line.size() && continues_character(line[to])) ++to;
  line = line.substr(from, to - from);
  caret -= from;
  std::string below;
  for (size_t i = 0; i < caret; ++i) {
    if (line[i] == '\t') {
      below += '\t';
    } else if (!continues_character(line[i])) {
      below += ' ';
    }
  }
  return "  " + line + "\n  " + below + "^";
}

void Diagnostics::add(const Mark& mark, const std::string& message) {
  add(sources_.where(mark), mark, message);
}

void Diagnostics::add(const std::string& where, const Mark& mark,
                      const std::string& message) {
  const bool known =
      std::any_of(found_.begin(), found_.end(), [&](const Entry& entry) {
        return entry.diagnostic.where == where &&
               entry.diagnostic.message == message;
      });
  if (known) return;
  found_.push_back({mark, {where, message, sources_.excerpt(mark)}});
}

bool Diagnostics::tells_of(const Mark& mark) const {
  return std::any_of(found_.begin(), found_.end(), [&](const Entry& entry) {
    return place_of(entry.mark) == place_of(mark);
  });
}

void Diagnostics::throw_if_any() {
  if (found_.empty()) return;
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Entry& a, const Entry& b) {
                     return place_of(a.mark) < place_of(b.mark);
                   });
  std::vector<Diagnostic> diagnostics;
  for (Entry& entry : found_) {
    diagnostics.push_back(std::move(entry.diagnostic));
  }
  throw RecipeError(std::move(diagnostics));
}

}  // namespace dtune
