#include "app/overrides.h"

namespace dtune {

std::vector<Override> parse_overrides(const std::vector<std::string>& texts) {
  std::vector<Override> overrides;
  overrides.reserve(texts.size());
  for (const std::string& text : texts) {
    overrides.push_back(parse_override(text));
  }
  return overrides;
}

}  // namespace dtune
