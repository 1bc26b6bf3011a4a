#include "dtune/data/npz.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/data/npz_pixels.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxNpzChannels = 64;

// Square images of one, three or four channels, the channels first: what
// PyTorch's users have. Read as [N, height, width, channels] these would be
// strips of 1 to 4 pixels.
bool looks_channels_first(const std::vector<int64_t>& shape) {
  constexpr int64_t kLeastSide = 6;
  return shape.size() == 4 && shape[1] <= 4 && shape[2] == shape[3] &&
         shape[2] >= kLeastSide;
}

void set_image_shape(const NpyHeader& header, const fs::path& where,
                     ImageSet& set) {
  const std::vector<int64_t>& shape = header.shape;
  if (looks_channels_first(shape)) {
    fail_data(where,
              fmt::format("has the shape [{}], which looks like [N, channels, "
                          "height, width], expected [N, height, width, "
                          "channels] (save images.transpose(0, 2, 3, 1))",
                          fmt::join(shape, ", ")));
  }
  const bool fits = shape.size() == 3 || shape.size() == 4;
  const int64_t channels = shape.size() == 4 ? shape[3] : 1;
  if (!fits || shape[1] < 1 || shape[2] < 1 || shape[1] > kMaxImageSide ||
      shape[2] > kMaxImageSide || channels < 1 || channels > kMaxNpzChannels) {
    fail_data(where,
              fmt::format("has the shape [{}], expected [N, height, width] or "
                          "[N, height, width, channels]",
                          fmt::join(shape, ", ")));
  }
  set.height = static_cast<int>(shape[1]);
  set.width = static_cast<int>(shape[2]);
  set.channels = static_cast<int>(channels);
}

void read_labels(ZipArchive& archive, const std::string& name, ImageSet& set) {
  const NpzArray array = read_npz_array(archive, name);
  const std::vector<int64_t>& shape = array.header.shape;
  if (shape.size() != 1 && !(shape.size() == 2 && shape[1] == 1)) {
    fail_data(
        array.where,
        fmt::format("has the shape [{}], expected one label a sample: [N] "
                    "or [N, 1] (one-hot labels: save labels.argmax(1); "
                    "several labels a sample cannot be used)",
                    fmt::join(shape, ", ")));
  }
  set.labels = npy_to_int32(array.header, array.bytes, array.where);
}

struct MemberNames {
  std::string images;
  std::string labels;
};

// The pair of names of a split that the archive has; MedMNIST's first.
std::optional<MemberNames> find_pair(const ZipArchive& archive,
                                     const std::string& split) {
  const MemberNames styles[] = {{split + "_images", split + "_labels"},
                                {"x_" + split, "y_" + split}};
  for (const MemberNames& names : styles) {
    const bool images = archive.has(names.images + ".npy");
    const bool labels = archive.has(names.labels + ".npy");
    if (images && labels) return names;
    if (images != labels) {
      fail_data(archive.where(),
                fmt::format("has {0}, but no {1}",
                            images ? names.images : names.labels,
                            images ? names.labels : names.images));
    }
  }
  return std::nullopt;
}

size_t pixels_of_one(const ImageSet& set) {
  return size_t(set.height) * size_t(set.width) * size_t(set.channels);
}

// Reads images from the archive as they are asked for, neighbours at once.
void stream_images(const std::shared_ptr<NpzStream>& stream,
                   const PixelMap& map, ImageSet& set) {
  const size_t pixels = pixels_of_one(set);
  const auto read_run = [stream, map, pixels](int64_t first,
                                              std::span<uint8_t> out) {
    NpyHeader piece = stream->header();
    piece.items = out.size();
    std::vector<uint8_t> raw(piece.value_bytes());
    const auto item = static_cast<uint64_t>(piece.item_bytes);
    stream->read(static_cast<uint64_t>(first) * pixels * item, raw);
    map.convert(piece, raw, stream->where(), out);
  };
  set.read = [read_run, pixels](std::span<const int64_t> numbers,
                                std::span<uint8_t> out) {
    for (size_t i = 0; i < numbers.size();) {
      size_t end = i + 1;
      while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
        ++end;
      }
      read_run(numbers[i], out.subspan(i * pixels, (end - i) * pixels));
      i = end;
    }
  };
  set.check = [stream] { stream->verify(); };
}

// `map` is made by the first split that is read: the training images. An array
// in Fortran's order has each image spread over all of it.
ImageSet open_split(const std::shared_ptr<ZipArchive>& archive,
                    const MemberNames& names, std::optional<PixelMap>& map) {
  ImageSet set;
  const auto stream = std::make_shared<NpzStream>(archive, names.images);
  set_image_shape(stream->header(), stream->where(), set);
  if (stream->header().fortran_order) {
    const NpzArray images = read_npz_array(*archive, names.images);
    if (!map) map.emplace(numbers_of(images), set.channels);
    set.images = map->pixels(images);
  } else {
    if (!map) map.emplace(numbers_of(*stream), set.channels);
    map->check(numbers_of(*stream));
    stream_images(stream, *map, set);
  }
  read_labels(*archive, names.labels, set);
  const size_t count = stream->header().items / pixels_of_one(set);
  if (count != set.labels.size()) {
    fail_data(
        archive->where(),
        fmt::format("{} holds {} labels, but {} holds {} images", names.labels,
                    set.labels.size(), names.images, count));
  }
  return set;
}

void check_like_train(const ZipArchive& archive, const ImageSet& train,
                      const ImageSet& set, const std::string& split,
                      int classes) {
  if (set.count() == 0) return;
  if (set.height != train.height || set.width != train.width ||
      set.channels != train.channels) {
    fail_data(archive.where(),
              fmt::format("{} images are {}x{}x{}, training images {}x{}x{}",
                          split, set.height, set.width, set.channels,
                          train.height, train.width, train.channels));
  }
  check_labels(archive.where().string() + ": " + split + " labels", set.labels,
               classes);
}

int count_classes(const ZipArchive& archive, const ImageSet& train) {
  const auto [low, high] =
      std::minmax_element(train.labels.begin(), train.labels.end());
  if (*low < 0 || *high >= kMaxClasses) {
    fail_data(archive.where(),
              fmt::format("training labels reach from {} to {} (labels are 0, "
                          "1, ... classes - 1)",
                          *low, *high));
  }
  return *high + 1;
}

}  // namespace

ImageSet npz_images(const NpzArray& array) {
  ImageSet set;
  set_image_shape(array.header, array.where, set);
  const PixelMap map(numbers_of(array), set.channels);
  if (!map.is_absolute()) {
    fail_data(array.where,
              "holds floats outside of [0, 1], whose scale is not known (save "
              "pixels of 0 to 255, or floats in [0, 1])");
  }
  set.images = map.pixels(array);
  return set;
}

SourceData open_npz(const std::shared_ptr<ZipArchive>& archive) {
  const auto train = find_pair(*archive, "train");
  if (!train) {
    std::vector<std::string> names = archive->names();
    if (names.size() > 12) names.resize(12);
    fail_data(archive->where(),
              fmt::format("has no train_images and train_labels (it holds: {})",
                          fmt::join(names, ", ")));
  }
  SourceData data;
  std::optional<PixelMap> map;
  data.train = open_split(archive, *train, map);
  if (data.train.count() == 0) {
    fail_data(archive->where(), "holds no training images");
  }
  const int classes = count_classes(*archive, data.train);
  for (const auto& [split, set] :
       {std::pair{"val", &data.validation}, std::pair{"test", &data.test}}) {
    const auto names = find_pair(*archive, split);
    if (names) *set = open_split(archive, *names, map);
    check_like_train(*archive, data.train, *set, split, classes);
  }
  if (const std::string note = map->note(); !note.empty()) {
    data.notes.push_back(note);
  }
  for (int i = 0; i < classes; ++i) {
    data.class_names.push_back(std::to_string(i));
  }
  return data;
}

}  // namespace dtune
