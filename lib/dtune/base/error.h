// The one exception root of dtune. Every kind maps to one exit code of the
// command line; third-party exceptions and error codes are translated into an
// Error at the edge of the module that uses the third party.
//
// Text convention: `where: what (remedy)`, e.g.
//   recipes/cifar.yaml:14:9: unknown key 'lerning_rate' (did you mean 'lr'?)
#pragma once

#include <stdexcept>
#include <string>

namespace dtune {

enum class ErrorKind {
  config,       // the recipe or the command line is wrong: never retry
  data,         // a data set is missing, damaged or of the wrong form
  store,        // the database cannot be read or written
  comm,         // a peer is gone or sends what cannot be read
  trial,        // one trial failed; the study goes on
  study,        // the study as a whole cannot go on
  temporary,    // trying again later may work (disk full, port taken)
  interrupted,  // the user asked to stop; the study can be resumed
  internal,     // a bug of ours
};

// Exit codes of every dtune process; the contract that CI and Slurm rely on.
inline constexpr int kExitOk = 0;
inline constexpr int kExitExpectationFailed = 1;
inline constexpr int kExitConfig = 2;
inline constexpr int kExitStudyFailed = 3;
inline constexpr int kExitTemporary = 75;
inline constexpr int kExitInterrupted = 130;

int exit_code(ErrorKind kind);

// "config", "data", ...: the name that `--json` output uses.
const char* to_string(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text)
      : std::runtime_error(text), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// Reports a bug of ours; user input must never reach it.
[[noreturn]] void check_failed(const char* expression, const char* file,
                               int line);

// Text of `errno`-style codes, thread-safe.
std::string errno_text(int code);

}  // namespace dtune

// An invariant of ours, checked in every build.
#define DTUNE_CHECK(condition)                               \
  do {                                                       \
    if (!(condition)) {                                      \
      ::dtune::check_failed(#condition, __FILE__, __LINE__); \
    }                                                        \
  } while (false)
