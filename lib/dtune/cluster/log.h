// What an agent and a worker say, a line at a time. Apart from spdlog, whose
// headers take seconds to compile wherever they are seen.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace dtune {

// Lines go to standard error from now on, with the time, `name` and their
// level. Before it they go where spdlog's default logger sends them.
void log_to_standard_error(const std::string& name);
// Lines below the level of a warning are not written from now on.
void log_warnings_only();

enum class LogLevel { info, warning, error };
// Thread-safe.
void log_line(LogLevel level, std::string_view line);

template <typename... Values>
void log_info(fmt::format_string<Values...> text, Values&&... values) {
  log_line(LogLevel::info, fmt::format(text, std::forward<Values>(values)...));
}

template <typename... Values>
void log_warning(fmt::format_string<Values...> text, Values&&... values) {
  log_line(LogLevel::warning,
           fmt::format(text, std::forward<Values>(values)...));
}

template <typename... Values>
void log_error(fmt::format_string<Values...> text, Values&&... values) {
  log_line(LogLevel::error, fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace dtune
