// Forms of values that several engines share.
#pragma once

#include <string>

#include "dtune/submit/request.h"

namespace dtune {

// The values of every template: name, program, recipe_path, log, folder,
// command (the study's, on a disk that all nodes share), and the user's raw
// lines.
TemplateValues common_values(const SubmitJob& job);

// `value`, where it has only signs that stay one word in a line of directives.
// Throws Error(config) otherwise.
std::string plain_value(const EngineAddress& to, const std::string& key,
                        const std::string& value);
// A value that the engine cannot do without. Throws Error(config) that shows
// `example` where it was not given.
std::string needed_value(const EngineAddress& to, const std::string& key,
                         const std::string& example);

// "90m" as "1:30:00". Throws as parse_duration.
std::string hours_minutes_seconds(const EngineAddress& to,
                                  const std::string& duration);
// Whole seconds, at least 1; `otherwise` where it was not given.
int64_t whole_seconds(const EngineAddress& to, const std::string& duration,
                      int64_t otherwise);

// RFC 4648, as a Secret has it.
std::string base64(const std::string& bytes);

}  // namespace dtune
