// Shapes that a data kind has without reading it: the project's one table.
#pragma once

#include "dtune/study/data_spec.h"
#include "dtune/study/layers.h"

namespace dtune {

// Height and width of synthetic images unless data.size says otherwise.
inline constexpr int kSyntheticSize = 28;

struct DataShape {
  Shape image;      // channels, height, width; channels 0: only the data know
  int classes = 0;  // 0: only the data know
};

DataShape known_data_shape(const DataSpec& spec);

}  // namespace dtune
