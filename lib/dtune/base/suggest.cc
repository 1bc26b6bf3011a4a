#include "dtune/base/suggest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace dtune {

int edit_distance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(columns));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (size_t j = 0; j < columns; ++j) d[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j < columns; ++j) {
      const int substitution = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitution});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

namespace {

std::string without_capitals(std::string_view word) {
  std::string text(word);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// The one candidate that begins with the word: an abbreviation.
const std::string* only_continuation(std::string_view word,
                                     std::span<const std::string> candidates) {
  constexpr size_t kFewestLetters = 3;
  if (word.size() < kFewestLetters) return nullptr;
  const std::string* found = nullptr;
  for (const std::string& candidate : candidates) {
    if (!without_capitals(candidate).starts_with(word)) continue;
    if (found != nullptr) return nullptr;
    found = &candidate;
  }
  return found;
}

// lr: learning_rate.
bool are_initials(std::string_view word, std::string_view candidate) {
  std::string initials;
  for (size_t i = 0; i < candidate.size(); ++i) {
    const bool first = i == 0 || candidate[i - 1] == '_';
    if (first && candidate[i] != '_') initials += candidate[i];
  }
  return initials.size() > 1 && initials == word;
}

}  // namespace

std::string nearest(std::string_view written,
                    std::span<const std::string> candidates) {
  const std::string word = without_capitals(written);
  if (const std::string* whole = only_continuation(word, candidates)) {
    return *whole;
  }
  std::string best;
  // Twice the distance; of two at the same one the continuation is meant.
  int best_distance = 2 * std::max(1, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::string plain = without_capitals(candidate);
    if (are_initials(word, plain)) return candidate;
    const int distance = edit_distance(word, plain);
    const int rank = 2 * distance - (plain.starts_with(word) ? 1 : 0);
    // A word that shares no letter is no misspelling.
    const bool alike =
        distance < static_cast<int>(std::max(word.size(), candidate.size()));
    if (alike && rank < best_distance) {
      best_distance = rank;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word,
                         std::span<const std::string> candidates) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : fmt::format(", did you mean '{}'?", best);
}

}  // namespace dtune
