#include "dtune/cluster/process_launcher.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>

namespace dtune {
namespace {

constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::seconds(60);
constexpr size_t kLastWords = 2000;  // bytes
constexpr size_t kLongestLine = 10'000;
// What a child may write from one read_output() to the next before it waits.
constexpr int kPipeBytes = 1 << 20;

}  // namespace

void ProcessLauncher::ensure() {
  if (child_) {
    read_output();
    const auto status = child_->status();
    if (!status) return;
    read_rest();
    child_.reset();
    on_end(*status);
  }
  if (!given_up_ && clock_.now() >= next_start_) start();
}

void ProcessLauncher::close() {
  if (child_) child_->stop_feeding();
  given_up_ = true;
}

void ProcessLauncher::finish(Duration patience) {
  if (!child_) return;
  constexpr Duration kTurn = std::chrono::milliseconds(50);
  for (Duration left = patience; left > kTurn; left -= kTurn) {
    if (child_->wait(kTurn)) break;
    read_output();
  }
  read_rest();
}

void ProcessLauncher::start() {
  last_words_.clear();
  started_ = clock_.now();
  try {
    child_ = std::make_unique<Child>(command());
    fcntl(child_->out(), F_SETPIPE_SZ, kPipeBytes);  // where that is allowed
  } catch (const Error& e) {
    ++failures_;
    fail(explain(e));
  }
}

void ProcessLauncher::read_output() {
  if (!child_) return;
  std::string text;
  size_t before = 0;
  do {
    before = text.size();
    child_->read_out(text);
  } while (text.size() > before && text.size() < kPipeBytes);
  for (const char c : text) {
    if (c != '\n' && c != '\r') partial_line_.push_back(c);
    if (c == '\n' || partial_line_.size() == kLongestLine) {
      take_line(std::exchange(partial_line_, {}));
    }
  }
}

void ProcessLauncher::read_rest() {
  read_output();
  if (!partial_line_.empty()) take_line(std::exchange(partial_line_, {}));
}

void ProcessLauncher::take_line(const std::string& line) {
  last_words_ += line + "\n";
  if (last_words_.size() > kLastWords) {
    last_words_.erase(0, last_words_.size() - kLastWords);
  }
  on_line(line);
}

void ProcessLauncher::on_end(const ExitStatus& status) {
  if (given_up_) return;  // close(): as it should be
  const bool settled = clock_.now() - started_ >= settled_;
  failures_ = settled ? 0 : failures_ + 1;
  fail(explain(status));
}

void ProcessLauncher::fail(const LaunchFailure& failure) {
  // The same message is not repeated.
  if (!failure.text.empty() && failure.text != problem_) {
    notices_.push_back(failure.text);
  }
  problem_ = failure.text;
  if (failure.lasts) {
    given_up_ = true;
    return;
  }
  if (failures_ == 0) return;
  const int doublings = std::min(failures_ - 1, 10);
  next_start_ =
      clock_.now() + std::min(kFirstPause * (1 << doublings), kLongestPause);
}

void ProcessLauncher::succeed(const std::string& notice) {
  if (problem_.empty()) return;
  notices_.push_back(notice);
  problem_.clear();
}

std::vector<std::string> ProcessLauncher::take_notices() {
  return std::exchange(notices_, {});
}

}  // namespace dtune
