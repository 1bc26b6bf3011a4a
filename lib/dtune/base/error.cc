#include "dtune/base/error.h"

#include <system_error>

#include <fmt/format.h>

namespace dtune {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
    case ErrorKind::data:
      return kExitConfig;
    case ErrorKind::temporary:
      return kExitTemporary;
    case ErrorKind::interrupted:
      return kExitInterrupted;
    case ErrorKind::store:
    case ErrorKind::comm:
    case ErrorKind::trial:
    case ErrorKind::study:
    case ErrorKind::internal:
      return kExitStudyFailed;
  }
  return kExitStudyFailed;
}

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::config:
      return "config";
    case ErrorKind::data:
      return "data";
    case ErrorKind::store:
      return "store";
    case ErrorKind::comm:
      return "comm";
    case ErrorKind::trial:
      return "trial";
    case ErrorKind::study:
      return "study";
    case ErrorKind::temporary:
      return "temporary";
    case ErrorKind::interrupted:
      return "interrupted";
    case ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

void check_failed(const char* expression, const char* file, int line) {
  throw Error(
      ErrorKind::internal,
      fmt::format("{}:{}: '{}' does not hold (a bug in dtune: please report it "
                  "with the command that you ran)",
                  file, line, expression));
}

std::string errno_text(int code) {
  return std::generic_category().message(code);
}

}  // namespace dtune
