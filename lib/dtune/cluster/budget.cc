#include "dtune/cluster/budget.h"

#include <algorithm>

#include <fmt/format.h>

namespace dtune {

BudgetMeter::BudgetMeter(const BudgetSpec& budget, const Study& study)
    : budget_(budget),
      trials_(trials_spent(study)),
      steps_(dtune::steps_spent(study)) {}

std::string BudgetMeter::why_no_trials() const {
  return fmt::format("the budget of {} trial{} is spent", budget_.trials,
                     budget_.trials == 1 ? "" : "s");
}

int64_t BudgetMeter::steps_left(int64_t outstanding) const {
  if (budget_.steps == 0) return INT64_MAX;
  return std::max<int64_t>(0, budget_.steps - steps_ - outstanding);
}

bool BudgetMeter::time_spent(double searched_seconds) const {
  return budget_.time.count() > 0 &&
         searched_seconds >= to_seconds(budget_.time);
}

}  // namespace dtune
