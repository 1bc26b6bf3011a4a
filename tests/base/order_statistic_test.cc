#include "dtune/base/order_statistic.h"

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("a value by its rank") {
  const std::vector<int> values = {5, 1, 4, 1};
  CHECK(order_statistic(values, 0) == 1);
  CHECK(order_statistic(values, 1) == 1);
  CHECK(order_statistic(values, 3) == 5);
}

TEST_CASE("the median is the larger of two middle values") {
  CHECK(upper_median(std::vector<double>{7}) == 7);
  CHECK(upper_median(std::vector<double>{3, 1, 2}) == 2);
  CHECK(upper_median(std::vector<double>{3, 1, 2, 9}) == 3);
}
