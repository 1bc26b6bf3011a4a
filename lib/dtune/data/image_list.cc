#include "dtune/data/image_list.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/data/folder.h"
#include "dtune/data/npz.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

bool is_colour_or_grey(int channels) { return channels == 1 || channels == 3; }

size_t pixels_of(const ImageSet& set) {
  return size_t(set.height) * size_t(set.width) * size_t(set.channels);
}

}  // namespace

ImageList::ImageList(const std::vector<fs::path>& paths, const Shape& shape)
    : shape_(shape) {
  for (const fs::path& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      add_folder(path);
    } else if (!fs::exists(path, error)) {
      fail_data(path, error ? "cannot be opened: " + error.message()
                            : "there is no such file or folder");
    } else if (path.extension() == ".npz") {
      add_archive(path);
    } else {
      add_file(path);
    }
  }
}

void ImageList::add_folder(const fs::path& path) {
  std::vector<fs::path> files;
  try {
    files = images_below(path);
  } catch (const fs::filesystem_error& error) {
    fail_data(path, "cannot be listed: " + error.code().message());
  }
  if (files.empty()) fail_data(path, "holds no images (.png, .jpg or .jpeg)");
  for (const fs::path& file : files) add_file(file);
}

void ImageList::add_file(const fs::path& path) {
  if (!is_colour_or_grey(shape_.channels)) {
    fail_data(path, fmt::format("is an image file, but the model takes images "
                                "of {} channels (give it an .npz archive)",
                                shape_.channels));
  }
  entries_.push_back({.file = path});
}

void ImageList::add_archive(const fs::path& path) {
  const size_t before = arrays_.size();
  ZipArchive archive(path);
  for (const std::string& member : archive.names()) {
    if (!member.ends_with(".npy")) continue;
    const std::string name = member.substr(0, member.size() - 4);
    const NpzArray array = read_npz_array(archive, name);
    const size_t dimensions = array.header.shape.size();
    if (dimensions != 3 && dimensions != 4) continue;  // labels
    add_array(path.string() + ":" + name, npz_images(array));
  }
  if (arrays_.size() == before) {
    fail_data(path,
              "holds no array of images ([N, height, width] or "
              "[N, height, width, channels])");
  }
}

void ImageList::add_array(const std::string& name, ImageSet images) {
  const int channels = images.channels;
  if (channels != shape_.channels &&
      !(is_colour_or_grey(channels) && is_colour_or_grey(shape_.channels))) {
    fail_data(name, fmt::format("has images of {} channels, but the model "
                                "takes {}",
                                channels, shape_.channels));
  }
  const size_t count = images.images.size() / pixels_of(images);
  for (size_t i = 0; i < count; ++i) {
    entries_.push_back({.array = arrays_.size(), .index = i});
  }
  arrays_.push_back({name, std::move(images)});
}

std::string ImageList::name(size_t index) const {
  const Entry& entry = entries_[index];
  if (!entry.file.empty()) return entry.file.string();
  return fmt::format("{}[{}]", arrays_[entry.array].name, entry.index);
}

Image ImageList::raw_image(const Entry& entry) const {
  if (!entry.file.empty()) {
    return read_image_file(entry.file, shape_.channels);
  }
  const ImageSet& set = arrays_[entry.array].images;
  const size_t size = pixels_of(set);
  const uint8_t* begin = set.images.data() + entry.index * size;
  return convert_channels({.height = set.height,
                           .width = set.width,
                           .channels = set.channels,
                           .pixels = {begin, begin + size}},
                          shape_.channels);
}

Image ImageList::read(size_t index) const {
  return resize_image(raw_image(entries_[index]), shape_.height, shape_.width);
}

}  // namespace dtune
