#include <algorithm>
#include <cmath>

#include "dtune/base/error.h"
#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

float clip(double value, double low, double high) {
  if (!std::isfinite(value)) return 0;
  return static_cast<float>(std::clamp(value, low, high));
}

// The ends of an axis are -1 and 1.
float coordinate(int index, int size) {
  return static_cast<float>(2 * index) / static_cast<float>(size - 1) - 1;
}

void check_sizes(const GridFeatures& study) {
  for (const auto* values : {&study.mean, &study.deviation, &study.seen,
                             &study.value, &study.pending}) {
    DTUNE_CHECK(values->size() == size_t{kGridPlaces});
  }
}

// Features that are the same for all voxels or for all studies.
void fill_place(int place, float total, float* feature) {
  const Voxel at = voxel_at(place % kGridVoxels);
  feature[7] = coordinate(at.lr, kGridLr);
  feature[8] = coordinate(at.l2, kGridL2);
  feature[9] = coordinate(at.dropout, kGridDropout);
  feature[10] = coordinate(place / kGridVoxels, kGridFrames);
  feature[11] = total;
}

}  // namespace

std::vector<float> input_features(const GridFeatures& study) {
  check_sizes(study);
  double total = 0;
  for (const float seen : study.seen) total += clip(seen, 0, 1);
  const float experience = clip(std::log1p(total) / 3, 0, 4);
  std::vector<float> features(size_t{kGridPlaces} * kFeatures);
  for (int place = 0; place < kGridPlaces; ++place) {
    const size_t i = study_place(place);
    float* feature = &features[size_t{kFeatures} * place];
    const double above = study.mean[i] - study.best;
    const double deviation = study.deviation[i];
    const double seen = clip(study.seen[i], 0, 1);
    const double value = (study.value[i] - study.best) / study.scale;
    feature[0] = clip(above / study.scale / 2, -6, 6);
    feature[1] = clip(std::log(deviation / study.scale) / 2, -4, 4);
    feature[2] = static_cast<float>(seen);
    feature[3] = clip(seen > 0 ? seen * value / 2 : 0, -6, 6);
    feature[4] = clip(study.pending[i], 0, 1);
    feature[5] = clip((std::log(deviation) + 3) / 2, -4, 4);
    feature[6] = clip(2 * above, -4, 4);
    fill_place(place, experience, feature);
  }
  return features;
}

}  // namespace dtune
