// Where the texts in quotes of a YAML document begin and end, found without
// parsing it: yaml-cpp takes a quote that is never closed for a text to the end
// of the file, and names the place where it lost its way, not the quote.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dtune/config/yaml_node.h"

namespace dtune {

struct QuotedText {
  Mark begin;               // of the opening quote
  std::optional<Mark> end;  // of the closing quote; none: never closed
};

// In their order. Quotes within words, comments and block scalars are none.
std::vector<QuotedText> quoted_texts(const std::string& text);

}  // namespace dtune
