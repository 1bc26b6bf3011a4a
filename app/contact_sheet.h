// Small pictures side by side with a caption below each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dtune/data/image.h"

namespace dtune {

struct CaptionedImage {
  Image image;
  std::vector<std::string> lines;  // of the caption, UTF-8
};

// All in rows, on white, enlarged by a whole factor where they are small;
// longer lines are cut. REQUIRES: at least one, all of one size with 1 or 3
// channels, and equally many lines.
Image contact_sheet(std::span<const CaptionedImage> images);

}  // namespace dtune
