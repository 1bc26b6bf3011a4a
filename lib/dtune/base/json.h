// Text of JSON values and back. nlohmann's printer and parser are large
// templates: a source that calls these functions need not compile them.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace dtune {

// On one line, or with `indent` blanks for each level. Bytes that are no UTF-8
// become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// On one line of ASCII: other letters become \uXXXX.
std::string ascii_json(const nlohmann::ordered_json& value);

// Throws nlohmann::json::parse_error.
nlohmann::json parse_json(std::string_view text);

nlohmann::ordered_json parse_ordered_json(std::string_view text);

// A value of which is_discarded() holds where `text` is no JSON.
nlohmann::json try_parse_json(std::string_view text);

}  // namespace dtune
