// The cube that recorded studies span, in physical units, and what they fixed
// beside it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace dtune {

// A point of the cube; beyond a recorded cube's ends it is clamped.
struct CubePoint {
  double log10_lr = -2;
  double log10_l2 = -4;
  double dropout = 0;
};

// What a recipe fixes beside the cube; unknown numbers are left out where
// contexts are compared.
struct CubeContext {
  std::optional<double> batch_size;
  std::optional<double> width;  // units or channels of the widest layer
  std::optional<double> momentum;
  std::optional<double> depth;  // hidden layers
  // Words of the recipe: "sgd", "adam", "adamw"; "constant", "step", "cosine".
  // Empty: not known.
  std::string optimizer;
  std::string schedule;
  std::optional<double> images;  // of the training split
};

// The cube has the coordinates of SGD with momentum. What Adam and AdamW train
// at `point` is found there at the rate, and the strength of L2, with which SGD
// does about as much: their rates are some ten times as small, and AdamW's
// decoupled decay some hundred times as strong. Other optimizers (and
// none): the point as it is.
CubePoint as_sgd(CubePoint point, const std::string& optimizer);
// The inverse.
CubePoint from_sgd(CubePoint point, const std::string& optimizer);

// Where a value lies on an ascending axis: between `index` and `index + 1`,
// clamped to its ends. An axis of one value has weight 0.
struct AxisPlace {
  size_t index = 0;
  double weight = 0;  // of index + 1
};

}  // namespace dtune
