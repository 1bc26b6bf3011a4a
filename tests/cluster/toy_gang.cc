#include "cluster/toy_gang.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cluster/toy.h"

#include "dtune/base/file.h"
#include "dtune/gang/client.h"

namespace dtune::toy {
namespace {

constexpr int64_t kSamples = 64;
constexpr int64_t kBatch = 16;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

class ToyGangSession final : public TrialSession {
 public:
  explicit ToyGangSession(const TrialAssignment& assignment)
      : assignment_(assignment),
        lr_(*as_number(assignment.point.at("lr"))),
        sample_(*as_number(assignment.point.at("ms")) / 1e3 / kBatch),
        client_(*assignment.rank),
        leader_(assignment.rank->member == 0) {
    if (assignment.resume_step > 0) {
      steps_ = std::stoi(read_file(assignment.checkpoint));
      updates_ = steps_ * (kSamples / kBatch);
    }
  }

  int steps_done() const override { return steps_; }
  uint64_t resident_bytes() const override { return 1000; }

  StepReport run_step(const std::atomic<bool>& stop) override {
    try {
      return train(stop);
    } catch (const StepStopped&) {
      client_.leave_step();
      throw;
    }
  }

  std::map<std::string, double> finish_final() override {
    if (!leader_) return {};
    write_file_atomic(assignment_.model_file, "gang", false);
    return {{"test_accuracy", lr_ / 2}};
  }

 private:
  StepReport train(const std::atomic<bool>& stop) {
    gang::Begin begin;
    begin.step = steps_ + 1;
    begin.updates = updates_;
    begin.position = steps_ * kSamples;
    begin.end = begin.position + kSamples;
    begin.epoch_samples = kSamples;
    begin.batch_size = kBatch;
    begin.evaluation_batches = 4;
    client_.begin(begin);
    step_ = begin.step;
    if (straggles() && step_ == 2) {
      throw TrialFailure(Reason::straggling, "it costs more than it brings");
    }
    while (true) {
      gang::Order order = client_.wait(stop);
      if (auto* go = std::get_if<gang::Go>(&order); go && go->last) {
        return finish(*go);
      }
      std::visit([&](const auto& o) { obey(o, stop); }, order);
    }
  }

  void obey(const gang::Regroup& order, const std::atomic<bool>& stop) {
    step_ = order.step;
    updates_ = order.updates;
    leader_ = order.members.front() == assignment_.rank->member;
    work(order.work, stop);
  }
  void obey(const gang::CatchUp& order, const std::atomic<bool>& stop) {
    updates_ = order.updates;
    work(order.work, stop);
  }
  void obey(const gang::Go& order, const std::atomic<bool>& stop) {
    leader_ = order.participants.front() == assignment_.rank->member;
    if (order.totals.samples > 0) ++updates_;
    work(order.next, stop);
  }
  void obey(const gang::GiveUp&, const std::atomic<bool>&) {}  // the client's
  void obey(const gang::Evicted& order, const std::atomic<bool>&) {
    throw TrialFailure(Reason::straggling, order.why);
  }
  void obey(const gang::Closed& order, const std::atomic<bool>&) {
    throw TrialFailure(Reason::lease_lapsed, order.why);
  }

  void work(const gang::Work& work, const std::atomic<bool>& stop) {
    gang::Ready ready;
    ready.round = work.round;
    ready.updates = updates_;
    if (work.phase == gang::Phase::commit) {
      if (leader_) ready.metrics = commit();
    } else {
      for (const Span& span : work.spans) {
        compute(span.size, stop);
        ready.totals.samples += span.size;
        ready.totals.weight += double(span.size);
      }
      if (work.phase == gang::Phase::evaluate) ready.totals = {};
    }
    ready.times = times_;
    client_.ready(ready);
  }

  void compute(int64_t samples, const std::atomic<bool>& stop) {
    const auto begin = std::chrono::steady_clock::now();
    const auto end = begin + from_seconds(sample_ * double(samples));
    while (waits() || (std::chrono::steady_clock::now() < end && !hurries())) {
      if (stop) throw StepStopped{};
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    times_ = {};
    times_.samples = samples;
    times_.forward = to_seconds(std::chrono::steady_clock::now() - begin);
  }

  static bool hurries() {
    const char* slow = std::getenv(kSlowWhile);
    return slow != nullptr && !std::filesystem::exists(slow);
  }
  bool waits() const {
    return assignment_.point.at("mode") == Value("wait_once") && step_ == 4 &&
           assignment_.attempt == 1;
  }
  bool straggles() const {
    return assignment_.point.at("mode") == Value("straggle") &&
           assignment_.trial == 1 && assignment_.rank->member == 1;
  }

  std::map<std::string, double> commit() {
    write_file_atomic(assignment_.checkpoint, std::to_string(step_), false);
    return {{"val_accuracy", lr_ * (1 - std::exp2(-step_))}};
  }

  StepReport finish(const gang::Go& go) {
    steps_ = step_;
    StepReport report;
    report.step = steps_;
    report.seconds = 1e-3;
    report.metrics = go.metrics;
    return report;
  }

  const TrialAssignment assignment_;
  const double lr_;
  const double sample_;  // seconds
  GangClient client_;
  bool leader_;  // of the last round; the first member before any
  gang::RoundTimes times_;
  int steps_ = 0;
  int step_ = 1;
  int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<TrialSession> make_gang_session(
    const TrialAssignment& assignment) {
  return std::make_unique<ToyGangSession>(assignment);
}

}  // namespace dtune::toy
