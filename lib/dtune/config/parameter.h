// One line of `space:`.
#pragma once

#include <optional>
#include <string>

#include "dtune/config/diagnostics.h"
#include "dtune/space/search_space.h"

namespace dtune {

// Letters, digits, '_', '-' and '.', as conditions read them.
bool is_parameter_name(const std::string& name);

// Reads `name: {log: [a, b], key: ..., when: ...}`; reports what is wrong and
// returns nothing then. Parameters of a command set no key.
std::optional<Parameter> read_parameter(const YamlNode& recipe,
                                        const YamlNode& line, bool command,
                                        Diagnostics& diagnostics);

YamlNode write_parameter(const Parameter& parameter);

// The key that a line sets: `given`, checked to be one that can be tuned;
// otherwise reports a problem and returns "".
std::string resolve_key(const YamlNode& recipe, const YamlNode& line,
                        const std::string& given, Diagnostics& diagnostics);

}  // namespace dtune
