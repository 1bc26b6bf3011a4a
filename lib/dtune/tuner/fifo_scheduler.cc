#include "dtune/tuner/schedulers.h"
#include "dtune/tuner/simple_rules.h"

namespace dtune {
namespace {

class FifoScheduler final : public Scheduler {
 public:
  explicit FifoScheduler(int horizon) : horizon_(horizon) {}

  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override {
    return run_all_to(horizon_, study, sampler, decision, may_start);
  }

  Verdict judge(const Study& /*study*/, const Trial& /*trial*/,
                bool reached) override {
    Verdict verdict;  // goes on
    if (reached) verdict.target_step = horizon_;
    return verdict;
  }

  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override {
    return plan_to_horizon(recipe, horizon);
  }

 private:
  int horizon_;
};

}  // namespace

std::unique_ptr<Scheduler> make_fifo_scheduler(const Recipe& /*recipe*/,
                                               int horizon) {
  return std::make_unique<FifoScheduler>(horizon);
}

}  // namespace dtune
