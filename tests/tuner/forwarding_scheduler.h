// A scheduler that leaves to another what its derived class does not decide.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtune/study/tuner.h"

namespace dtune {

class ForwardingScheduler : public Scheduler {
 public:
  explicit ForwardingScheduler(std::unique_ptr<Scheduler> inner)
      : inner_(std::move(inner)) {}
  Directive next(const Study& study, Sampler& sampler, int64_t decision,
                 bool may_start) override {
    return inner_->next(study, sampler, decision, may_start);
  }
  Verdict judge(const Study& study, const Trial& trial, bool reached) override {
    return inner_->judge(study, trial, reached);
  }
  std::vector<std::string> describe_plan(const Recipe& recipe,
                                         int horizon) const override {
    return inner_->describe_plan(recipe, horizon);
  }

 private:
  std::unique_ptr<Scheduler> inner_;
};

}  // namespace dtune
