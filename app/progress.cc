#include "app/progress.h"

#include <fstream>
#include <set>
#include <utility>

#include "app/screen.h"
#include <fmt/format.h>

#include "dtune/base/clock.h"
#include "dtune/report/lines.h"
#include "dtune/report/live.h"

namespace dtune {
namespace {

class Stopwatch {
 public:
  double seconds() const { return to_seconds(system_clock().now() - start_); }

 private:
  MonoTime start_ = system_clock().now();
};

class Lines {
 public:
  explicit Lines(std::FILE* out) : out_(out) {}

  void put(const std::string& line) {
    if (line.empty()) return;
    std::fputs((line + '\n').c_str(), out_);
    std::fflush(out_);
  }
  double seconds() const { return watch_.seconds(); }

 private:
  std::FILE* out_;
  Stopwatch watch_;
};

class VerboseProgress : public ProgressSink {
 public:
  explicit VerboseProgress(std::FILE* out) : lines_(out) {}

  void on_started(const Study& study) override {
    put(started_line(study, seconds()));
  }
  void on_report(const Study& study, const Trial& trial,
                 const StepReport& report) override {
    put(report_line(study, trial, report, seconds()));
  }
  void on_state(const Study& study, const Trial& trial) override {
    // The line that says that it runs comes with the next message.
    if (trial.reason == Reason::proposed) return;
    put(state_line(study, trial, seconds()));
  }
  void on_notice(const std::string& text) override {
    put(notice_line(text, seconds()));
  }
  void on_finished(const Study& study, TrialId /*best*/) override {
    put(finished_line(study, seconds()));
  }

 protected:
  void put(const std::string& line) { lines_.put(line); }
  double seconds() const { return lines_.seconds(); }

 private:
  Lines lines_;
};

// One line for each turn of a trial: from its lease until it leaves its slot.
class PlainProgress final : public VerboseProgress {
 public:
  using VerboseProgress::VerboseProgress;

  void on_report(const Study& study, const Trial& trial,
                 const StepReport& report) override {
    unsaid_.insert(trial.id);
    // A log that is silent for long looks like a program that hangs.
    constexpr double kLongest = 30;
    if (seconds() - said_ < kLongest) return;
    say(trial, report_line(study, trial, report, seconds()));
  }
  void on_state(const Study& study, const Trial& trial) override {
    switch (trial.state) {
      case TrialState::running:
        return;
      case TrialState::waiting:
        if (trial.kind == TrialKind::final && trial.curve.empty()) {
          say(trial, state_line(study, trial, seconds()));
        }
        return;
      case TrialState::paused:
        if (!unsaid_.contains(trial.id)) return;
        break;
      default:
        break;
    }
    say(trial, turn_line(study, trial, seconds()));
  }

 private:
  void say(const Trial& trial, const std::string& line) {
    unsaid_.erase(trial.id);
    said_ = seconds();
    put(line);
  }

  std::set<TrialId> unsaid_;  // have reported since their last line
  double said_ = 0;           // the last line
};

class QuietProgress final : public ProgressSink {
 public:
  void on_alert(const std::string& text) override {
    lines_.put("dtune: " + printable(text));
  }

 private:
  Lines lines_{stderr};
};

class EventLog final : public ProgressSink {
 public:
  explicit EventLog(const std::filesystem::path& path)
      : file_(path, std::ios::app) {
    if (!file_) {
      throw Error(ErrorKind::config,
                  fmt::format("--events: {}: cannot be written (check the path "
                              "and its permissions)",
                              path.string()));
    }
  }

  void on_started(const Study& study) override {
    put(started_json(study, watch_.seconds()));
  }
  void on_report(const Study& study, const Trial& trial,
                 const StepReport& report) override {
    put(report_json(study, trial, report, watch_.seconds()));
  }
  void on_state(const Study& study, const Trial& trial) override {
    put(state_json(study, trial, watch_.seconds()));
  }
  void on_notice(const std::string& text) override {
    put(notice_json(text, watch_.seconds()));
  }
  void on_finished(const Study& study, TrialId best) override {
    put(finished_json(study, best, watch_.seconds()));
  }

 private:
  void put(const std::string& line) { file_ << line << std::endl; }

  std::ofstream file_;
  Stopwatch watch_;
};

class LiveProgress final : public ProgressSink {
 public:
  LiveProgress(const Console& console, const std::atomic<int>& stop,
               const std::string& hint)
      : color_(console.out_color),
        unicode_(locale_is_utf8()),
        stop_(stop),
        hint_(hint) {}

  void on_notice(const std::string& text) override {
    screen_.print_above(notice_line(text, watch_.seconds()) + '\n');
  }
  void on_tick(const Study& study, const ClusterStatus& status) override {
    const TerminalSize size = terminal_size();
    const bool stopping = stop_ > 0;
    std::string frame =
        render_live(study, status, {size.columns, size.rows - int{stopping}},
                    color_, unicode_);
    if (stopping) frame += fit(hint_, size.columns, unicode_) + '\n';
    screen_.draw(frame);
    screen_.progress(status.done_fraction);
  }
  // What follows is the summary; it says more than the last frame.
  void on_finished(const Study& /*study*/, TrialId /*best*/) override {
    screen_.clear();
  }

 private:
  bool color_;
  bool unicode_;
  const std::atomic<int>& stop_;
  const std::string& hint_;
  Stopwatch watch_;
  Screen screen_;
};

class FanOut final : public ProgressSink {
 public:
  explicit FanOut(std::vector<std::unique_ptr<ProgressSink>> sinks)
      : sinks_(std::move(sinks)) {}

  void on_started(const Study& study) override {
    for (auto& sink : sinks_) sink->on_started(study);
  }
  void on_report(const Study& study, const Trial& trial,
                 const StepReport& report) override {
    for (auto& sink : sinks_) sink->on_report(study, trial, report);
  }
  void on_state(const Study& study, const Trial& trial) override {
    for (auto& sink : sinks_) sink->on_state(study, trial);
  }
  void on_notice(const std::string& text) override {
    for (auto& sink : sinks_) sink->on_notice(text);
  }
  void on_alert(const std::string& text) override {
    for (auto& sink : sinks_) sink->on_alert(text);
  }
  void on_tick(const Study& study, const ClusterStatus& status) override {
    for (auto& sink : sinks_) sink->on_tick(study, status);
  }
  void on_finished(const Study& study, TrialId best) override {
    for (auto& sink : sinks_) sink->on_finished(study, best);
  }

 private:
  std::vector<std::unique_ptr<ProgressSink>> sinks_;
};

}  // namespace

std::unique_ptr<ProgressSink> make_plain_progress(std::FILE* out,
                                                  bool verbose) {
  if (verbose) return std::make_unique<VerboseProgress>(out);
  return std::make_unique<PlainProgress>(out);
}

std::unique_ptr<ProgressSink> make_quiet_progress() {
  return std::make_unique<QuietProgress>();
}

std::unique_ptr<ProgressSink> make_live_progress(const Console& console,
                                                 const std::atomic<int>& stop,
                                                 const std::string& hint) {
  return std::make_unique<LiveProgress>(console, stop, hint);
}

std::unique_ptr<ProgressSink> make_event_log(
    const std::filesystem::path& path) {
  return std::make_unique<EventLog>(path);
}

std::unique_ptr<ProgressSink> make_fan_out(
    std::vector<std::unique_ptr<ProgressSink>> sinks) {
  return std::make_unique<FanOut>(std::move(sinks));
}

}  // namespace dtune
