#include "dtune/cluster/local_launcher.h"

#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr int kMostEarlyEnds = 3;
constexpr int kMostKills = 20;  // by others: its program is not what is wrong
constexpr Duration kEarly = std::chrono::seconds(10);

}  // namespace

LocalLauncher::LocalLauncher(LocalLauncherOptions options, const Clock& clock)
    : ProcessLauncher(clock, kEarly), options_(std::move(options)) {}

LocalLauncher::~LocalLauncher() { finish(Duration{0}); }

void LocalLauncher::ensure() {
  ProcessLauncher::ensure();
  if (given_up()) throw Error(ErrorKind::study, problem());
}

SpawnOptions LocalLauncher::command() {
  // Asked, not killed: it still has its workers' children to end.
  return {.argv = options_.argv,
          .environment = {{"DTUNE_STUDY", options_.study_id}},
          .death_signal = SIGTERM,
          .capture = true,
          .merge = true};
}

void LocalLauncher::on_line(const std::string& line) {
  options_.log->write(line);
}

// One end is a matter for the log alone: the coordinator says what its leases
// come to.
LaunchFailure LocalLauncher::explain(const ExitStatus& status) {
  if (failures() < (status.signal == 0 ? kMostEarlyEnds : kMostKills)) {
    return {};
  }
  return {fmt::format("the agent of this machine ended {} times in a row, the "
                      "last time with {}: {} (see {})",
                      failures(), describe(status), last_words(),
                      options_.log->file().string()),
          true};
}

// Its program is this one: nothing can be done without it.
LaunchFailure LocalLauncher::explain(const Error&) { throw; }

}  // namespace dtune
