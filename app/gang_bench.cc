#include "app/gang_bench.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "app/machine.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/base/random.h"
#include "dtune/cluster/child_process.h"

namespace dtune {
namespace {

using std::chrono::milliseconds;

constexpr const char* kGang = "bench.1";
constexpr Duration kTurn = milliseconds(20);  // of a slowed rank
constexpr Duration kGlance = milliseconds(5);

// A rank that one thread listens to while others signal it. The thread that
// asks how it ended reaps it, and then its id may be another's: both under a
// lock.
class Rank {
 public:
  explicit Rank(const SpawnOptions& spawn) : child_(spawn) {}

  std::optional<ExitStatus> status() {
    const std::lock_guard lock(mutex_);
    return child_.status();
  }
  // Nothing where it has ended.
  void signal(int number) {
    const std::lock_guard lock(mutex_);
    if (!child_.status()) kill(child_.pid(), number);
  }
  // For the one thread that listens.
  void read_out(std::string& text) { child_.read_out(text); }
  void read_err(std::string& text) { child_.read_err(text); }

 private:
  std::mutex mutex_;
  Child child_;
};

// Slows, stops and kills a rank, which outlives it, from a thread of its own.
class Disturber {
 public:
  Disturber(const Disturbance& what, Rank& rank, uint64_t seed)
      : what_(what), rank_(rank), rng_(seed), thread_([this] { run(); }) {}
  ~Disturber() {
    end_ = true;
    thread_.join();
    rank_.signal(SIGCONT);
  }
  Disturber(const Disturber&) = delete;
  Disturber& operator=(const Disturber&) = delete;

 private:
  void run() {
    switch (what_.kind) {
      case Disturbance::Kind::slow:
        return slow_down();
      case Disturbance::Kind::spike:
        return spike();
      case Disturbance::Kind::kill:
        if (sleep(from_seconds(what_.seconds))) rank_.signal(SIGKILL);
    }
  }

  void slow_down() {
    const auto awake = from_seconds(to_seconds(kTurn) / what_.factor);
    while (true) {
      rank_.signal(SIGCONT);
      if (!sleep(awake)) return;
      rank_.signal(SIGSTOP);
      if (!sleep(kTurn - awake)) return;
    }
  }

  void spike() {
    while (sleep(from_seconds(2 * what_.every * rng_.uniform()))) {
      rank_.signal(SIGSTOP);
      const bool more = sleep(from_seconds(what_.seconds));
      rank_.signal(SIGCONT);
      if (!more) return;
    }
  }

  // False: the end has come.
  bool sleep(Duration duration) const {
    const MonoTime until = system_clock().now() + duration;
    while (!end_) {
      const MonoTime now = system_clock().now();
      if (now >= until) return true;
      std::this_thread::sleep_for(std::min<Duration>(until - now, kTurn));
    }
    return false;
  }

  const Disturbance what_;
  Rank& rank_;
  Rng rng_;
  std::atomic<bool> end_{false};
  std::thread thread_;
};

// Steps of a status that were there before `before`.
MemberStatus since(MemberStatus now, const MemberStatus& before) {
  now.late -= before.late;
  now.times.samples -= before.times.samples;
  for (const TimePart& part : kTimeParts) {
    now.times.*part.seconds -= before.times.*part.seconds;
  }
  return now;
}

class Bench {
 public:
  explicit Bench(const GangCase& gang)
      : gang_(gang), server_({.local = sockets_.endpoint("gangs")}, nullptr) {
    write_file_atomic(folder_.path() / "recipe.yaml",
                      gang.recipe.resolved_yaml(), false);
    const ParallelSpec& parallel = gang.recipe.recipe().parallel;
    if (parallel.mode != ParallelMode::none) {
      members_ = gang_members(parallel);
    }
    if (!gang.trace.empty()) server_.trace_to(gang.trace);
    GangOptions options;
    options.gang = kGang;
    options.parallel = parallel;
    options.nodes.assign(size_t(members_), "here");
    if (members_ > 1) server_.open(options);
    gpus_ = plan_slots(gang.recipe.recipe()).gpus;
    for (int i = 0; i < members_; ++i) start(i);
  }

  GangRun run() {
    const MonoTime deadline = system_clock().now() + gang_.patience;
    const size_t wanted =
        static_cast<size_t>(gang_.warmup) + static_cast<size_t>(gang_.steps);
    while (run_.steps.size() < wanted) {
      if (!listen()) give_up("all ranks have ended");
      if (system_clock().now() > deadline) give_up("it took too long");
      std::this_thread::sleep_for(kGlance);
    }
    disturbers_.clear();
    const GangStatus after = server_.status(kGang);
    for (size_t i = 0; i < after.members.size(); ++i) {
      run_.members.push_back(i < before_.members.size()
                                 ? since(after.members[i], before_.members[i])
                                 : after.members[i]);
    }
    if (members_ > 1) server_.close(kGang, "the benchmark is over");
    check_trace();
    return std::move(run_);
  }

 private:
  void start(int member) {
    SpawnOptions spawn;
    spawn.argv = {own_program(), "rank",
                  "--recipe",    (folder_.path() / "recipe.yaml").string(),
                  "--data",      gang_.prepared_data.string(),
                  "--steps",     std::to_string(gang_.warmup + gang_.steps),
                  "--threads",   std::to_string(gang_.threads),
                  "--seed",      std::to_string(gang_.seed)};
    if (members_ > 1) {
      spawn.argv.insert(
          spawn.argv.end(),
          {"--connect", server_.local_endpoint(), "--gang", kGang, "--member",
           std::to_string(member), "--members", std::to_string(members_)});
    }
    if (!gpus_.empty()) {
      const std::string& gpu =
          gpus_[static_cast<size_t>(member) % gpus_.size()].id;
      spawn.environment = {{"CUDA_VISIBLE_DEVICES", gpu},
                           {"DTUNE_SLOT_DEVICE", gpu}};
    }
    ranks_.push_back(std::make_unique<Rank>(spawn));
    words_.resize(ranks_.size());
  }

  // What the ranks report; the first that has done a step counts for all.
  // False: none is left.
  bool listen() {
    bool any = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const bool ended = ranks_[i]->status().has_value();
      ranks_[i]->read_out(words_[i].out);
      ranks_[i]->read_err(words_[i].err);
      size_t end = 0;
      while ((end = words_[i].out.find('\n')) != std::string::npos) {
        heard(words_[i].out.substr(0, end));
        words_[i].out.erase(0, end + 1);
      }
      any = any || !ended;
      if (ended && members_ > 1 && !words_[i].ended) {
        server_.member_lost(kGang, static_cast<int>(i),
                            describe(*ranks_[i]->status()));
      }
      words_[i].ended = ended;
    }
    return any;
  }

  void heard(const std::string& line) {
    const auto said = try_parse_json(line);
    if (!said.is_object() || !said.contains("step")) return;
    if (said["step"].get<size_t>() != run_.steps.size() + 1) return;
    run_.steps.push_back(said["seconds"].get<double>());
    run_.losses.push_back(said["metrics"].value(
        "train_loss", std::numeric_limits<double>::quiet_NaN()));
    if (run_.steps.size() == static_cast<size_t>(gang_.warmup)) begin();
  }

  void check_trace() {
    for (const GangEvent& event : server_.take_events()) {
      if (event.kind != GangEvent::Kind::untraced) continue;
      throw Error(ErrorKind::temporary, event.text);
    }
  }

  void begin() {
    before_ = server_.status(kGang);
    for (const Disturbance& what : gang_.disturbances) {
      if (what.member < 0 || what.member >= members_) continue;
      disturbers_.push_back(std::make_unique<Disturber>(
          what, *ranks_[size_t(what.member)], gang_.seed));
    }
  }

  [[noreturn]] void give_up(const std::string& why) {
    std::string text = why;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      std::string last = words_[i].err;
      while (last.ends_with('\n')) last.pop_back();
      const size_t line = last.rfind('\n');
      if (line != std::string::npos) last.erase(0, line + 1);
      const auto status = ranks_[i]->status();
      text += fmt::format("; rank {}: {}", i,
                          status ? describe(*status) : "running");
      if (!last.empty()) text += ", " + last;
    }
    throw Error(ErrorKind::study, "benchmark: " + text);
  }

  struct Words {
    std::string out;
    std::string err;
    bool ended = false;
  };

  const GangCase& gang_;
  const TemporaryDirectory folder_;
  const SocketDirectory sockets_;
  GangServer server_;
  int members_ = 1;
  std::vector<Gpu> gpus_;  // of the ranks in turn; empty: CPU
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Words> words_;
  std::vector<std::unique_ptr<Disturber>> disturbers_;
  GangStatus before_;
  GangRun run_;
};

}  // namespace

GangRun run_gang(const GangCase& gang) {
  Bench bench(gang);
  return bench.run();
}

}  // namespace dtune
