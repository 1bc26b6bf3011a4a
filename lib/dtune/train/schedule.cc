#include "dtune/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtune {
namespace {

double cosine_factor(const ScheduleSpec& schedule, double epoch,
                     double epochs) {
  const double length = epochs - schedule.warmup;
  const double t =
      length > 0 ? std::clamp((epoch - schedule.warmup) / length, 0.0, 1.0) : 1;
  return schedule.floor +
         (1 - schedule.floor) * 0.5 * (1 + std::cos(std::numbers::pi * t));
}

double step_factor(const ScheduleSpec& schedule, double epoch) {
  const auto passed =
      std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                    [epoch](double milestone) { return milestone <= epoch; });
  return std::pow(schedule.gamma, static_cast<double>(passed));
}

}  // namespace

double schedule_factor(const ScheduleSpec& schedule, double epoch,
                       double epochs) {
  if (epoch < schedule.warmup) return epoch / schedule.warmup;
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::step:
      return step_factor(schedule, epoch);
    case ScheduleKind::cosine:
      return cosine_factor(schedule, epoch, epochs);
  }
  return 1;
}

}  // namespace dtune
