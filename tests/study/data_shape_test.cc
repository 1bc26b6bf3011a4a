#include "dtune/study/data_shape.h"

#include <doctest/doctest.h>

#include "dtune/study/recipe.h"

namespace dtune {
namespace {

TEST_CASE("the shape of a public data set is known without reading it") {
  const DataShape fashion = known_data_shape({});
  CHECK(fashion.image == Shape{.channels = 1, .height = 28, .width = 28});
  CHECK(fashion.classes == 10);
  DataSpec cifar;
  cifar.kind = DataKind::cifar100;
  CHECK(known_data_shape(cifar).image.channels == 3);
  CHECK(known_data_shape(cifar).classes == 100);
}

TEST_CASE("synthetic images have the shape that was asked for") {
  DataSpec spec;
  spec.kind = DataKind::synthetic;
  spec.channels = 3;
  spec.classes = 4;
  CHECK(known_data_shape(spec).image.height == kSyntheticSize);
  spec.height = 12;
  spec.width = 20;
  CHECK(known_data_shape(spec).image ==
        Shape{.channels = 3, .height = 12, .width = 20});
  CHECK(known_data_shape(spec).classes == 4);
}

TEST_CASE("a folder's shape is known where the recipe sets its size") {
  DataSpec spec;
  spec.kind = DataKind::folder;
  CHECK(known_data_shape(spec).image.channels == 0);
  spec.height = spec.width = 64;
  CHECK(known_data_shape(spec).image.channels == 3);
  spec.gray = true;
  CHECK(known_data_shape(spec).image.channels == 1);
  CHECK(known_data_shape(spec).classes == 0);
  spec.kind = DataKind::npz;
  CHECK(known_data_shape(spec).image.channels == 0);
}

TEST_CASE("the words of a recipe's enums are those of its keys") {
  CHECK(to_string(DataKind::fashion_mnist) == std::string("fashion-mnist"));
  CHECK(to_string(OptimizerKind::adamw) == std::string("adamw"));
  CHECK(to_string(ScheduleKind::cosine) == std::string("cosine"));
  CHECK(to_string(LossKind::cross_entropy) == std::string("cross_entropy"));
  CHECK(to_string(Goal::minimize) == std::string("minimize"));
  CHECK(to_string(Comparison::greater_equal) == std::string(">="));
}

}  // namespace
}  // namespace dtune
