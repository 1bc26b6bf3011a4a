// How the numbers of an .npz archive's images become pixels of 0 to 255.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dtune/data/npz_array.h"

namespace dtune {

// The numbers of an array of images, in C order, as often as they are asked
// for.
struct NpzNumbers {
  NpyHeader header;
  std::filesystem::path where;
  std::function<void(const std::function<void(double)>&)> for_each;
};
// What they read must outlive them.
NpzNumbers numbers_of(const NpzArray& array);
NpzNumbers numbers_of(NpzStream& stream);

// One map for all splits of a data set, chosen by its training images:
//
//   whole numbers          must lie in 0 .. 255 and stay as they are
//   floats, all whole
//   and in 0 .. 255        likewise
//   floats in [0, 1]       round(255 x): exact for images that came from uint8
//   other floats           each channel's range [low, high] becomes 0 .. 255:
//                          exact for standardised images that came from uint8
//                          and had pixels of 0 and 255. So that outliers take
//                          few levels, the range reaches no further beyond
//                          where all but two thousandths of the values lie
//                          than eight times the width of that.
//
// As images are normalised per channel by the mean and deviation of their
// pixels, the scale that is lost here has no influence on the training.
// Thread-compatible.
class PixelMap {
 public:
  // REQUIRES: `train` is an array of images with `channels` as its last axis.
  // Throws Error(data) for values that are no numbers, or not finite.
  PixelMap(const NpzNumbers& train, int channels);

  // Throws Error(data) where values are not on the scale of the training
  // images: a split on another scale would be judged on images that the network
  // has never seen the like of.
  void check(const NpzNumbers& numbers) const;

  // Raw values in C order, from the beginning of an image on, to pixels. Throws
  // Error(data) for what no pixel can be. REQUIRES: header.items pixels.
  void convert(const NpyHeader& header, std::span<const uint8_t> raw,
               const std::filesystem::path& where,
               std::span<uint8_t> pixels) const;

  // Both for a whole array, in any order.
  std::vector<uint8_t> pixels(const NpzArray& array) const;

  // Whether pixels follow from the values alone, not from the range that they
  // have in this array.
  bool is_absolute() const { return kind_ != Kind::ranges; }

  // What is done to the images, for people; "" where they stay as they are.
  std::string note() const;

 private:
  enum class Kind { levels, unit, ranges };
  struct Range {
    double low = 0;
    double high = 0;
  };

  uint8_t level_of(double value, size_t channel) const;
  [[noreturn]] void fail_scale(const std::filesystem::path& where,
                               double value) const;

  Kind kind_ = Kind::levels;
  std::vector<Range> ranges_;  // Kind::ranges: of each channel
  size_t channels_ = 1;
  std::string note_;
};

}  // namespace dtune
