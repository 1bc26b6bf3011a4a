// "did you mean ...?" for misspelt words.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dtune {

// Levenshtein distance, a swap of neighbours counting one (optimal string
// alignment). O(|a| |b|).
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `written`, capitals aside: the only one that begins
// with it or, of several words, with whose letters they begin (lr:
// learning_rate); else, by distance, "" where none is near enough (more than a
// third of the letters differ).
std::string nearest(std::string_view written,
                    std::span<const std::string> candidates);

// ", did you mean 'x'?" or "".
std::string did_you_mean(std::string_view word,
                         std::span<const std::string> candidates);

}  // namespace dtune
