#include "dtune/cluster/slot_process.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxFailedStarts = 5;
constexpr size_t kErrorTailBytes = 2000;
constexpr size_t kMaxLine = 4000;
constexpr Duration kMemoryInterval = milliseconds(200);
constexpr Duration kIdleTick = milliseconds(500);

// 0 after the first failure, then 100 ms, 200 ms, 400 ms, ...
Duration start_delay(int failed_starts) {
  if (failed_starts < 2) return Duration{0};
  return milliseconds(100) * (1 << std::min(failed_starts - 2, 6));
}

bool mentions_memory(const std::string& text) {
  return text.find("bad_alloc") != std::string::npos ||
         text.find("out of memory") != std::string::npos ||
         text.find("Cannot allocate memory") != std::string::npos;
}

// The process's GPU, and which part of its memory it may take.
std::map<std::string, std::string> device_environment(
    const SlotOptions& options, int number) {
  if (options.devices.empty()) return {};
  const auto count = static_cast<int>(options.devices.size());
  const auto device_of = [&](int one) -> const std::string& {
    return options.devices[static_cast<size_t>(one % count)];
  };
  const std::string& device = device_of(number);
  const int processes = options.slots / options.seats;
  int sharing = 0;
  for (int other = 0; other < std::max(processes, number + 1); ++other) {
    sharing += device_of(other) == device ? 1 : 0;
  }
  return {{"CUDA_VISIBLE_DEVICES", device},
          {"DTUNE_SLOT_DEVICE", device},
          {"DTUNE_DEVICE_SHARE", fmt::format("{:.6g}", 1.0 / sharing)}};
}

}  // namespace

SlotProcess::SlotProcess(int number, const SlotOptions& options, Send send)
    : number_(number),
      options_(options),
      send_(std::move(send)),
      group_("slot" + std::to_string(number)),
      seats_(static_cast<size_t>(options.seats)) {}

std::vector<int> SlotProcess::slots() const {
  std::vector<int> slots(static_cast<size_t>(options_.seats));
  std::iota(slots.begin(), slots.end(), first_slot());
  return slots;
}

std::vector<int> SlotProcess::slots_up() const {
  std::vector<int> slots = this->slots();
  std::erase_if(slots, [this](int slot) { return !up(slot); });
  return slots;
}

bool SlotProcess::holds_trial() const {
  return std::any_of(seats_.begin(), seats_.end(),
                     [](const Seat& seat) { return seat.trial != 0; });
}

control::Ended SlotProcess::not_taken(const control::Assign& assign) {
  control::Ended ended;
  ended.slot = assign.slot;
  ended.trial = assign.trial;
  ended.attempt = assign.attempt;
  ended.outcome = control::Outcome::temporary;
  ended.reason = Reason::node_lost;
  ended.detail = "the slot's worker was just being restarted";
  return ended;
}

void SlotProcess::on_slot_up(int slot) {
  seat(slot).up = true;
  failed_starts_ = 0;
}

void SlotProcess::on_assign(const control::Assign& assign) {
  seat(assign.slot).trial = assign.trial;
  seat(assign.slot).attempt = assign.attempt;
}

void SlotProcess::on_ended(const control::Ended& ended) {
  Seat& own = seat(ended.slot);
  if (ended.trial == own.trial && ended.attempt == own.attempt) own.trial = 0;
}

void SlotProcess::kill(Reason reason, const std::string& why, MonoTime now,
                       int slot) {
  if (!child_ || dying_) return;
  kill_order_ = control::Kill{slot, 0, 0, reason, why};
  dying_ = true;
  kill_at_ = now + options_.grace;
  child_->signal_group(SIGTERM);
}

void SlotProcess::shut_down(bool hard, MonoTime now) {
  closing_ = true;
  if (!child_) return;
  if (hard) {
    dying_ = true;
    kill_at_ = now;
    child_->signal_group(SIGKILL);
  } else {
    kill(Reason::user, "asked to stop", now);
  }
}

MonoTime SlotProcess::tick(MonoTime now) {
  if (!child_) {
    if (closing_ || gone_) return now + kIdleTick;
    if (now < start_at_) return start_at_;
    spawn(now);
    if (!child_) return start_at_;
  }
  read_output();
  if (const auto status = child_->status()) {
    on_exit(*status, now);
    return start_at_;
  }
  kernel_kills_.look(now);
  check_memory(now);
  escalate(now);
  MonoTime next = now + kIdleTick;
  if (dying_) next = std::min(next, std::max(kill_at_, now + milliseconds(5)));
  if (options_.memory_bytes > 0) next = std::min(next, next_memory_check_);
  // Without an exit descriptor its end has to be looked for.
  if (child_->exit_descriptor() < 0)
    next = std::min(next, now + milliseconds(20));
  return next;
}

void SlotProcess::spawn(MonoTime now) {
  SpawnOptions spawn;
  spawn.argv = options_.argv;
  for (const std::string& word :
       {std::string("--connect"), options_.endpoint, std::string("--slot"),
        std::to_string(first_slot()), std::string("--seats"),
        std::to_string(options_.seats), std::string("--threads"),
        std::to_string(options_.threads)}) {
    spawn.argv.push_back(word);
  }
  spawn.environment = {{"DTUNE_STUDY", options_.study_id},
                       {"DTUNE_AGENT", process_name(getpid())},
                       {"DTUNE_SLOT", std::to_string(number_)}};
  spawn.environment.merge(device_environment(options_, number_));
  spawn.control_group = group_.folder().string();
  spawn.merge = true;
  spawn.data_bytes = memory_bytes();
  tail_.clear();
  partial_line_.clear();
  seats_.assign(seats_.size(), {});
  dying_ = false;
  kill_order_.reset();
  kernel_kills_ = {};
  try {
    child_ = std::make_unique<Child>(spawn);
  } catch (const Error& e) {
    ++failed_starts_;
    start_at_ =
        now + std::max(start_delay(failed_starts_), Duration(kIdleTick));
    if (e.kind() == ErrorKind::config || failed_starts_ >= kMaxFailedStarts) {
      give_up(e.what());
    }
  }
}

void SlotProcess::read_output() {
  std::string text;
  child_->read_out(text);
  partial_line_ += text;
  take_lines(false);
}

void SlotProcess::take_lines(bool all) {
  size_t begin = 0;
  while (begin < partial_line_.size()) {
    size_t end = partial_line_.find('\n', begin);
    const bool whole = end != std::string::npos;
    if (!whole) {
      if (!all && partial_line_.size() - begin < kMaxLine) break;
      end = std::min(partial_line_.size(), begin + kMaxLine);
    }
    const std::string line = partial_line_.substr(begin, end - begin);
    if (options_.log_line) options_.log_line(first_slot(), line);
    tail_ += line + "\n";
    begin = whole ? end + 1 : end;
  }
  partial_line_.erase(0, begin);
  if (tail_.size() > kErrorTailBytes)
    tail_.erase(0, tail_.size() - kErrorTailBytes);
}

// RLIMIT_DATA bounds what a process asks for; what it touches through shared
// maps and in its children's name is looked at from here.
void SlotProcess::check_memory(MonoTime now) {
  if (options_.memory_bytes == 0 || now < next_memory_check_) return;
  next_memory_check_ = now + kMemoryInterval;
  const uint64_t bytes = resident_bytes(child_->pid());
  if (bytes <= memory_bytes()) return;
  kill(Reason::out_of_memory,
       fmt::format("used {} MB of memory, {} MB are allowed "
                   "(resources.memory_mb)",
                   bytes >> 20, memory_bytes() >> 20),
       now);
}

void SlotProcess::escalate(MonoTime now) {
  if (dying_ && now >= kill_at_) child_->signal_group(SIGKILL);
}

void SlotProcess::on_exit(const ExitStatus& status, MonoTime now) {
  read_output();
  take_lines(true);
  const bool was_up = !slots_up().empty();
  std::vector<control::Ended> ended;
  for (const int slot : slots()) ended.push_back(explain(status, slot));
  child_.reset();
  seats_.assign(seats_.size(), {});
  dying_ = false;
  // What its commands have started, however they hid from its group.
  group_.end();
  kill_adopted({"DTUNE_STUDY=" + options_.study_id,
                "DTUNE_AGENT=" + process_name(getpid()),
                "DTUNE_SLOT=" + std::to_string(number_)});
  for (const control::Ended& one : ended) {
    if (one.trial != 0) send_(one);
  }
  if (closing_) return;
  failed_starts_ = was_up ? 0 : failed_starts_ + 1;
  start_at_ = now + start_delay(failed_starts_);
  if (failed_starts_ >= kMaxFailedStarts) {
    give_up(fmt::format("its worker ended {} times before it was ready: {}",
                        failed_starts_, ended.front().detail));
    return;
  }
  for (const control::Ended& one : ended) {
    send_(control::SlotDown{one.slot, false, one.detail});
  }
}

control::Ended SlotProcess::explain(const ExitStatus& status, int slot) const {
  control::Ended ended;
  ended.slot = slot;
  ended.trial = seat(slot).trial;
  ended.attempt = seat(slot).attempt;
  ended.outcome = control::Outcome::failed;
  ended.exit_code = status.exit_code;
  ended.signal = status.signal;
  const std::string how = describe(status);
  const auto held =
      std::count_if(seats_.begin(), seats_.end(),
                    [](const Seat& seat) { return seat.trial != 0; });
  if (kill_order_) {
    ended.reason = kill_order_->reason;
    // Of several trials it is not known which took the memory.
    if (held > 1 && ended.reason == Reason::out_of_memory) {
      ended.reason = Reason::killed;
    }
    ended.detail = fmt::format("{} ({})", kill_order_->why, how);
    if (kill_order_->slot >= 0 && kill_order_->slot != slot) {
      ended.outcome = control::Outcome::temporary;
      ended.reason = Reason::node_lost;
      ended.detail =
          "the process was ended for another of its trials: " + ended.detail;
    }
    return ended;
  }
  const bool by_kernel = status.signal == SIGKILL && kernel_kills_.recent();
  if (by_kernel || mentions_memory(tail_)) {
    ended.reason = Reason::out_of_memory;
  } else if (status.signal == SIGKILL || status.signal == SIGTERM ||
             status.signal == SIGINT || status.signal == SIGHUP) {
    ended.reason = Reason::killed;
  } else {
    ended.reason = Reason::crashed;
  }
  if (held > 1) ended.reason = Reason::killed;  // likewise
  ended.detail = "the worker process ended with " + how;
  if (by_kernel) ended.detail += ", the kernel having no memory left for it";
  std::string tail = tail_;
  while (tail.ends_with('\n')) tail.pop_back();
  if (!tail.empty()) ended.detail += "; it last wrote: " + tail;
  return ended;
}

void SlotProcess::give_up(const std::string& why) {
  gone_ = true;
  for (const int slot : slots()) send_(control::SlotDown{slot, true, why});
}

}  // namespace dtune
