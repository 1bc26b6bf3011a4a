#include "dtune/cluster/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace dtune {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log_to_standard_error(const std::string& name) {
  spdlog::set_default_logger(spdlog::stderr_color_mt(name));
}

void log_warnings_only() { spdlog::set_level(spdlog::level::warn); }

void log_line(LogLevel level, std::string_view line) {
  spdlog::default_logger_raw()->log(
      spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace dtune
