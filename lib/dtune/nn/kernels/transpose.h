// Transposes small matrices, e.g. an image from channels-last to planes.
#pragma once

namespace dtune {

// from: [rows, columns] -> to: [columns, rows].
void transpose(const float* from, int rows, int columns, float* to);

}  // namespace dtune
