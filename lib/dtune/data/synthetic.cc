#include "dtune/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/data/source_error.h"
#include "dtune/study/data_shape.h"

namespace dtune {
namespace {

// All arithmetic is in integers, so that no compiler or libm changes a bit.
constexpr int kGrid = 4;  // cells of a pattern along each side
constexpr size_t kCells = size_t{kGrid} * kGrid;
constexpr int kOne = 256;
constexpr int kShiftShare = 10;  // shifts reach a tenth of a side

// Amplitudes of [kGrid, kGrid] cells, -kOne .. kOne, per channel.
using Pattern = std::vector<std::array<int, kCells>>;

struct Frame {
  int height;
  int width;
  int channels;
  int hidden;  // difficulty in units of 1 / kOne
};

int symmetric(Rng& rng, int reach) {
  return static_cast<int>(rng.below(2 * uint64_t(reach) + 1)) - reach;
}

Pattern random_pattern(int channels, Rng& rng) {
  Pattern pattern(static_cast<size_t>(channels));
  for (auto& cells : pattern) {
    for (int& cell : cells) cell = symmetric(rng, kOne);
  }
  return pattern;
}

// Where `at` of `side` pixels lies between cells, in units of 1 / kOne cells.
int cell_position(int at, int side) {
  const int position = (2 * at + 1) * kGrid * kOne / (2 * side) - kOne / 2;
  return std::clamp(position, 0, (kGrid - 1) * kOne);
}

// Bilinear between cells; the result is in units of 1 / kOne.
int sample_pattern(const std::array<int, kCells>& cells, int y, int x) {
  const int row = std::min(y / kOne, kGrid - 2);
  const int column = std::min(x / kOne, kGrid - 2);
  const int fy = y - row * kOne;
  const int fx = x - column * kOne;
  const int* at = cells.data() + size_t(row) * kGrid + size_t(column);
  const int top = at[0] * (kOne - fx) + at[1] * fx;
  const int bottom = at[kGrid] * (kOne - fx) + at[kGrid + 1] * fx;
  return (top * (kOne - fy) + bottom * fy) / (kOne * kOne);
}

void draw_sample(const Frame& frame, const Pattern& signal, Rng& rng,
                 uint8_t* out) {
  const Pattern clutter = random_pattern(frame.channels, rng);
  const int dy = symmetric(rng, frame.height / kShiftShare);
  const int dx = symmetric(rng, frame.width / kShiftShare);
  for (int y = 0; y < frame.height; ++y) {
    for (int x = 0; x < frame.width; ++x) {
      const int cy = cell_position(y, frame.height);
      const int cx = cell_position(x, frame.width);
      const int sy = cell_position(y + dy, frame.height);
      const int sx = cell_position(x + dx, frame.width);
      for (size_t c = 0; c < signal.size(); ++c) {
        const int clean = sample_pattern(signal[c], sy, sx);
        const int hiding =
            sample_pattern(clutter[c], cy, cx) + symmetric(rng, kOne / 2);
        const int mixed =
            ((kOne - frame.hidden) * clean + frame.hidden * hiding) / kOne;
        *out++ = static_cast<uint8_t>(std::clamp(128 + mixed / 2, 0, 255));
      }
    }
  }
}

ImageSet draw_set(const Frame& frame, const std::vector<Pattern>& patterns,
                  int64_t count, uint64_t seed) {
  ImageSet set{.height = frame.height,
               .width = frame.width,
               .channels = frame.channels,
               .images = {},
               .labels = {}};
  const size_t pixels =
      size_t(frame.height) * size_t(frame.width) * size_t(frame.channels);
  set.images.resize(pixels * static_cast<size_t>(count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    Rng rng(mix_seed({seed, i}));
    const size_t label = i % patterns.size();
    draw_sample(frame, patterns[label], rng, set.images.data() + i * pixels);
    set.labels.push_back(static_cast<int32_t>(label));
  }
  return set;
}

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::config, "data: " + what);
}

void check_spec(const DataSpec& spec, const Shape& shape) {
  constexpr int kMaxChannels = 64;
  if (spec.classes < 2 || spec.classes > kMaxClasses) {
    reject(fmt::format("classes: {} is out of range (2 to {})", spec.classes,
                       kMaxClasses));
  }
  if (shape.channels < 1 || shape.channels > kMaxChannels || shape.height < 1 ||
      shape.height > kMaxImageSide || shape.width < 1 ||
      shape.width > kMaxImageSide) {
    reject(fmt::format("images of {} are out of range", to_string(shape)));
  }
  if (spec.samples < spec.classes) {
    reject(fmt::format("samples: {} is less than one for each of {} classes",
                       spec.samples, spec.classes));
  }
  if (!(spec.difficulty >= 0 && spec.difficulty <= 1)) {
    reject(fmt::format("difficulty: {} is out of range (0 to 1)",
                       spec.difficulty));
  }
  const auto bytes = checked_product({spec.samples, shape.elements()});
  if (!bytes) reject("this many samples of this size are out of range");
  check_fits_memory("data (synthetic)", *bytes + *bytes / 4);
}

}  // namespace

SourceData make_synthetic(const DataSpec& spec) {
  const Shape shape = known_data_shape(spec).image;
  check_spec(spec, shape);
  const Frame frame{
      .height = shape.height,
      .width = shape.width,
      .channels = shape.channels,
      .hidden = static_cast<int>(std::lround(spec.difficulty * double{kOne}))};
  const uint64_t seed = mix_seed({hash_text("synthetic"), spec.split_seed});
  Rng rng(seed);
  std::vector<Pattern> patterns;
  SourceData data;
  for (int i = 0; i < spec.classes; ++i) {
    patterns.push_back(random_pattern(frame.channels, rng));
    data.class_names.push_back(std::to_string(i));
  }
  data.train = draw_set(frame, patterns, spec.samples,
                        mix_seed({seed, hash_text("train")}));
  data.test = draw_set(frame, patterns, std::max<int64_t>(spec.samples / 4, 1),
                       mix_seed({seed, hash_text("test")}));
  return data;
}

}  // namespace dtune
