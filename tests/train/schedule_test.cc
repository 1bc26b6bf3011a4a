#include "dtune/train/schedule.h"

#include <doctest/doctest.h>

using namespace dtune;

namespace {

ScheduleSpec of(ScheduleKind kind) {
  ScheduleSpec schedule;
  schedule.kind = kind;
  return schedule;
}

}  // namespace

TEST_CASE("a constant schedule leaves the learning rate alone") {
  const ScheduleSpec schedule = of(ScheduleKind::constant);
  CHECK(schedule_factor(schedule, 0, 10) == 1);
  CHECK(schedule_factor(schedule, 12, 10) == 1);
}

TEST_CASE("warm-up rises linearly from 0 and ends at the full rate") {
  ScheduleSpec schedule = of(ScheduleKind::constant);
  schedule.warmup = 2;
  CHECK(schedule_factor(schedule, 0, 10) == 0);
  CHECK(schedule_factor(schedule, 0.5, 10) == doctest::Approx(0.25));
  CHECK(schedule_factor(schedule, 2, 10) == 1);
}

TEST_CASE("a step schedule multiplies by gamma at each milestone") {
  ScheduleSpec schedule = of(ScheduleKind::step);
  schedule.gamma = 0.1;
  schedule.milestones = {6, 3};  // any order
  CHECK(schedule_factor(schedule, 2.99, 10) == 1);
  CHECK(schedule_factor(schedule, 3, 10) == doctest::Approx(0.1));
  CHECK(schedule_factor(schedule, 9, 10) == doctest::Approx(0.01));
}

TEST_CASE("a cosine falls from 1 to its floor") {
  ScheduleSpec schedule = of(ScheduleKind::cosine);
  schedule.floor = 0.1;
  CHECK(schedule_factor(schedule, 0, 10) == doctest::Approx(1));
  CHECK(schedule_factor(schedule, 5, 10) == doctest::Approx(0.55));
  CHECK(schedule_factor(schedule, 10, 10) == doctest::Approx(0.1));
  CHECK(schedule_factor(schedule, 11, 10) == doctest::Approx(0.1));
}

TEST_CASE("a cosine starts after the warm-up") {
  ScheduleSpec schedule = of(ScheduleKind::cosine);
  schedule.warmup = 2;
  CHECK(schedule_factor(schedule, 1, 10) == doctest::Approx(0.5));
  CHECK(schedule_factor(schedule, 2, 10) == doctest::Approx(1));
  CHECK(schedule_factor(schedule, 6, 10) == doctest::Approx(0.5));
}

TEST_CASE("a cosine shorter than its warm-up is at its floor") {
  ScheduleSpec schedule = of(ScheduleKind::cosine);
  schedule.warmup = 2;
  CHECK(schedule_factor(schedule, 2, 2) == 0);
  CHECK(schedule_factor(schedule, 0.5, 1) == doctest::Approx(0.25));
}
