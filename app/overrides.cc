#include "app/overrides.h"

#include <algorithm>

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
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find(',', start), text.size());
      if (end > start) words.push_back(text.substr(start, end - start));
      start = end + 1;
    }
  }
  return words;
}

}  // namespace dtune
