#include "app/overrides.h"

#include <algorithm>

#include "dtune/base/text.h"

namespace dtune {

std::vector<Override> parse_overrides(const std::vector<std::string>& texts) {
  std::vector<Override> overrides;
  overrides.reserve(texts.size());
  for (const std::string& text : texts) {
    overrides.push_back(parse_override(text));
  }
  return overrides;
}

std::vector<std::string> split_list(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (const std::string& text : texts) {
    for (std::string& word : split_list(text)) words.push_back(std::move(word));
  }
  return words;
}

}  // namespace dtune
