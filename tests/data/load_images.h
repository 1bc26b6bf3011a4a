// All images of a source, as tests look at them.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/data/prepared.h"
#include "dtune/data/source_error.h"

namespace dtune {

// Reads the images of all splits; throws as the source does.
inline void load_images(SourceData& source) {
  for (ImageSet* set : {&source.train, &source.validation, &source.test}) {
    if (!set->read || set->count() == 0) continue;
    const auto bytes =
        checked_product({set->count(), set->height, set->width, set->channels});
    DTUNE_CHECK(bytes);
    check_fits_memory("data", *bytes);
    set->images.resize(*bytes);
    std::vector<int64_t> all(set->labels.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    set->read(all, set->images);
  }
  for (ImageSet* set : {&source.train, &source.validation, &source.test}) {
    if (set->check) set->check();
    set->read = nullptr;
    set->check = nullptr;
  }
}

}  // namespace dtune
