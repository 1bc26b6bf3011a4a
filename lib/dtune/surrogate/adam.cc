#include "dtune/surrogate/adam.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dtune/base/error.h"

namespace dtune {

Adam::Adam(size_t parameters, const AdamOptions& options)
    : options_(options), mean_(parameters), square_(parameters) {}

double Adam::rate_at(int64_t step) const {
  if (step < options_.warm_up) {
    return options_.rate * static_cast<double>(step + 1) /
           static_cast<double>(options_.warm_up);
  }
  const double span = static_cast<double>(
      std::max<int64_t>(options_.steps - options_.warm_up, 1));
  const double progress =
      std::min(static_cast<double>(step - options_.warm_up) / span, 1.0);
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options_.rate *
         (options_.final_share + (1 - options_.final_share) * fall);
}

double Adam::step(std::span<float> parameters,
                  std::span<const float> gradient) {
  DTUNE_CHECK(parameters.size() == mean_.size());
  DTUNE_CHECK(gradient.size() == mean_.size());
  double sum = 0;
  for (const float g : gradient) sum += double{g} * g;
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm)) return norm;
  const bool clipped = options_.clip > 0 && norm > options_.clip;
  const float factor =
      clipped ? static_cast<float>(options_.clip / norm) : 1.0F;
  const double rate = rate_at(steps_++);
  const double n = static_cast<double>(steps_);
  const double correction2 = std::sqrt(1 - std::pow(options_.beta2, n));
  const float pace = static_cast<float>(rate * correction2 /
                                        (1 - std::pow(options_.beta1, n)));
  const float epsilon = static_cast<float>(options_.epsilon * correction2);
  const float keep1 = static_cast<float>(options_.beta1);
  const float keep2 = static_cast<float>(options_.beta2);
  for (size_t i = 0; i < mean_.size(); ++i) {
    const float g = factor * gradient[i];
    mean_[i] = keep1 * mean_[i] + (1 - keep1) * g;
    square_[i] = keep2 * square_[i] + (1 - keep2) * g * g;
    parameters[i] -= pace * mean_[i] / (std::sqrt(square_[i]) + epsilon);
  }
  return norm;
}

}  // namespace dtune
