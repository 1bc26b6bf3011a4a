// One table per enum serves both ways between a value and its word.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "dtune/base/error.h"

namespace dtune {

// The words of an enum whose values are 0, 1, 2, ... in the order of `words`.
template <size_t N>
using Words = std::array<const char*, N>;

template <typename Enum, size_t N>
const char* word_of(const Words<N>& words, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < N ? words[index] : "unknown";
}

template <typename Enum, size_t N>
std::optional<Enum> value_of(const Words<N>& words, std::string_view word) {
  for (size_t i = 0; i < N; ++i) {
    if (word == words[i]) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// The same for a word of a database; Error(store), which says that it is no
// `what`, for others.
template <typename Enum, size_t N>
Enum stored_value(const Words<N>& words, const std::string& word,
                  const char* what) {
  if (const auto value = value_of<Enum>(words, word)) return *value;
  throw Error(ErrorKind::store,
              std::string("unknown ") + what + " '" + word +
                  "' (was the database written by a newer dtune?)");
}

}  // namespace dtune
