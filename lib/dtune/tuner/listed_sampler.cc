#include <utility>

#include <fmt/format.h>

#include "dtune/tuner/candidates.h"
#include "dtune/tuner/samplers.h"

namespace dtune {
namespace {

class ListedSampler final : public Sampler {
 public:
  explicit ListedSampler(std::unique_ptr<Sampler> rest)
      : rest_(std::move(rest)) {}

  std::optional<Proposal> propose(const Study& study,
                                  int64_t decision) override {
    const std::vector<Point>& points = study.recipe.points;
    if (taken_.update(study)) next_ = 0;
    for (; next_ < points.size(); ++next_) {
      if (taken_.contains(points[next_])) continue;
      return Proposal{
          points[next_],
          fmt::format("point {} of the recipe's {}", next_ + 1, points.size()),
          true};
    }
    return rest_->propose(study, decision);
  }

  std::vector<std::string> explain(const Study& study) const override {
    return rest_->explain(study);
  }
  std::vector<std::string> explain_trial(const Study& study,
                                         TrialId trial) const override {
    return rest_->explain_trial(study, trial);
  }
  std::map<std::string, double> weights(const Study& study) const override {
    return rest_->weights(study);
  }
  std::optional<Prediction> predict(const Study& study, const Trial& trial,
                                    int step) const override {
    return rest_->predict(study, trial, step);
  }

 private:
  std::unique_ptr<Sampler> rest_;
  TakenPoints taken_;
  size_t next_ = 0;  // all listed points before it are taken
};

}  // namespace

std::unique_ptr<Sampler> make_listed_sampler(std::unique_ptr<Sampler> rest) {
  return std::make_unique<ListedSampler>(std::move(rest));
}

}  // namespace dtune
