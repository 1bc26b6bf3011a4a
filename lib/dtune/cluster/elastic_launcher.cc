#include "dtune/cluster/elastic_launcher.h"

#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace dtune {
namespace {

constexpr size_t kMostWords = size_t{1} << 20;  // bytes of a command

}  // namespace

ElasticLauncher::ElasticLauncher(ElasticOptions options, const Clock& clock)
    : name_(options.name),
      command_timeout_(options.command_timeout),
      clock_(clock),
      jobs_(std::move(options), clock) {}

void ElasticLauncher::ensure() {
  if (child_) return run_command();
  if (const auto action = jobs_.next()) start(*action);
}

void ElasticLauncher::start(Action action) {
  const EngineCommand engine = command(action);
  action_ = action;
  words_.clear();
  began_ = clock_.now();
  jobs_.begun(action);
  try {
    child_ = std::make_unique<Child>(SpawnOptions{
        .argv = engine.argv, .merge = true, .feed = !engine.input.empty()});
    if (!engine.input.empty()) {
      child_->feed(engine.input);
      child_->stop_feeding();
    }
  } catch (const Error& e) {
    jobs_.failed(action, {fmt::format("{}: {}", name_, e.what()),
                          e.kind() == ErrorKind::config});
  }
}

void ElasticLauncher::run_command() {
  std::string more;
  child_->read_out(more);
  if (words_.size() < kMostWords) words_ += more;
  auto status = child_->status();
  if (!status && clock_.now() - began_ > command_timeout_) {
    child_->signal_group(SIGKILL);
    child_.reset();
    jobs_.unanswered(action_);
    return;
  }
  if (!status) return;
  more.clear();
  while (child_->read_out(more) && !more.empty()) {
    words_ += std::exchange(more, {});
  }
  words_ += more;
  child_.reset();
  on_end(*status);
}

void ElasticLauncher::on_end(const ExitStatus& status) {
  if (status.exit_code != 0) {
    jobs_.failed(action_, explain(action_, status, words_));
  } else if (action_ == Action::submit) {
    jobs_.submitted(submitted(words_));
  } else if (action_ == Action::list) {
    jobs_.listed(listed(words_));
  } else {
    jobs_.cancelled();
  }
}

void ElasticLauncher::close() {
  if (jobs_.closed()) return;
  jobs_.close();
  if (child_ && action_ != Action::submit) child_.reset();
  ensure();
}

void ElasticLauncher::finish(Duration patience) {
  close();
  constexpr Duration kTurn = std::chrono::milliseconds(20);
  for (Duration left = patience; left > kTurn && !jobs_.is_cancelled();
       left -= kTurn) {
    if (child_) child_->wait(kTurn);
    ensure();
  }
}

}  // namespace dtune
