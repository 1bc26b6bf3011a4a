#include "dtune/cluster/launch_failure.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/base/text.h"

namespace dtune {

const FailureWord* find_failure(std::span<const FailureWord> words,
                                std::string_view text) {
  const auto found = std::ranges::find_if(
      words, [&](const auto& word) { return contains_any(text, word.any); });
  return found == words.end() ? nullptr : &*found;
}

std::string last_line_of(std::string_view text, const std::string& otherwise) {
  const std::string_view said = trim(text, " \n\r\t");
  if (said.empty()) return otherwise;
  return std::string(said.substr(said.rfind('\n') + 1));
}

LaunchFailure explain_failure(const FailureWord* word, const std::string& name,
                              const ExitStatus& status,
                              const std::string& said) {
  if (word != nullptr) {
    return {fmt::format("{}: {} ({})", name, said, word->remedy), word->lasts};
  }
  return {fmt::format("{}: {} ({}; it is tried again)", name, said,
                      describe(status)),
          false};
}

}  // namespace dtune
