#include "dtune/pretrain/adam.h"

#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/train/schedule.h"
#include "dtune/train/update_rule.h"

namespace dtune {

Adam::Adam(size_t parameters, const AdamOptions& options)
    : mean_(parameters), square_(parameters) {
  spec_.optimizer = OptimizerKind::adam;
  spec_.epochs = static_cast<double>(options.steps);
  spec_.lr = options.rate;
  spec_.clip_norm = options.clip;
  spec_.schedule = {
      .kind = ScheduleKind::cosine, .warmup = options.warm_up, .floor = 0.01};
}

void Adam::step(std::span<float> parameters, std::span<float> gradient) {
  DTUNE_CHECK(parameters.size() == mean_.size());
  DTUNE_CHECK(gradient.size() == mean_.size());
  double sum = 0;
  for (const float g : gradient) sum += double{g} * g;
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm)) return;
  const double middle = static_cast<double>(steps_) + 0.5;
  const UpdateStep step = {
      .lr = spec_.lr * schedule_factor(spec_.schedule, middle, spec_.epochs),
      .number = ++steps_,
      .gradient_scale = clip_factor(spec_.clip_norm, norm)};
  const DecayRun all = {.end = static_cast<int64_t>(mean_.size())};
  apply_update(spec_, step, {&all, 1}, {parameters, gradient, mean_, square_});
}

}  // namespace dtune
