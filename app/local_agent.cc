#include "app/local_agent.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr int kMostEarlyDeaths = 3;
constexpr Duration kEarly = std::chrono::seconds(10);
constexpr size_t kLastWords = 2000;  // bytes

std::string join(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

std::vector<std::string> agent_argv(const LocalAgentOptions& options) {
  std::vector<std::string> argv = {
      own_program(), "agent",
      "--connect",   options.endpoint,
      "--study",     options.study_id,
      "--slots",     std::to_string(options.slots.slots),
      "--threads",   std::to_string(options.slots.threads)};
  if (!options.slots.devices.empty()) {
    argv.insert(argv.end(), {"--devices", join(options.slots.devices)});
  }
  return argv;
}

}  // namespace

LocalAgent::LocalAgent(LocalAgentOptions options)
    : options_(std::move(options)), log_(options_.log, std::ios::app) {}

LocalAgent::~LocalAgent() {
  if (child_) keep_log();
}

void LocalAgent::ensure() {
  if (child_) {
    keep_log();
    const auto status = child_->status();
    if (!status) return;
    keep_log();
    const MonoTime now = system_clock().now();
    early_deaths_ = now - started_ < kEarly ? early_deaths_ + 1 : 0;
    child_.reset();
    if (early_deaths_ >= kMostEarlyDeaths) {
      throw Error(
          ErrorKind::study,
          fmt::format("the agent of this machine ended {} times in a row, the "
                      "last time with {}: {} (see {})",
                      early_deaths_, describe(*status), last_words_,
                      options_.log.string()));
    }
    next_start_ = now + early_deaths_ * Duration(std::chrono::seconds(1));
  }
  if (system_clock().now() >= next_start_) start();
}

void LocalAgent::start() {
  started_ = system_clock().now();
  // Asked, not killed: it still has its workers' children to end.
  child_ = std::make_unique<Child>(
      SpawnOptions{.argv = agent_argv(options_),
                   .environment = {{"DTUNE_STUDY", options_.study_id}},
                   .death_signal = SIGTERM,
                   .capture = true,
                   .merge = true});
}

void LocalAgent::keep_log() {
  std::string text;
  child_->read_out(text);
  if (text.empty()) return;
  log_ << text << std::flush;
  last_words_ += text;
  if (last_words_.size() > kLastWords) {
    last_words_.erase(0, last_words_.size() - kLastWords);
  }
}

}  // namespace dtune
