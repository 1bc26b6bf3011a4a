// Images that a user names, for a model that was trained already: files,
// folders and arrays, brought to the model's size and channels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dtune/data/image.h"
#include "dtune/data/prepared.h"

namespace dtune {

// Arrays are in memory, files are read one by one. Thread-safe for reading.
class ImageList {
 public:
  // Each path is a PNG or JPEG file, a folder (all images below it, sorted by
  // path), or an .npz archive, of which all arrays [N, height, width] and
  // [N, height, width, channels] count. `shape`: of the images that read()
  // returns. Throws Error(data): no such file, a folder without images, an
  // archive without arrays of images or with other channels than
  // convert_channels() can change, files for a model of other than 1 or 3
  // channels.
  ImageList(const std::vector<std::filesystem::path>& paths,
            const Shape& shape);

  size_t count() const { return entries_.size(); }
  // "cats/1.png", "test.npz:test_images[12]".
  std::string name(size_t index) const;
  // Converted as a folder data set converts its images (image.h). Throws
  // Error(data) where a file cannot be read as an image.
  Image read(size_t index) const;

 private:
  struct Array {
    std::string name;
    ImageSet images;
  };
  struct Entry {
    std::filesystem::path file;  // or "":
    size_t array = 0;            // of arrays_
    size_t index = 0;            // in it
  };

  void add_folder(const std::filesystem::path& path);
  void add_file(const std::filesystem::path& path);
  void add_archive(const std::filesystem::path& path);
  void add_array(const std::string& name, ImageSet images);
  Image raw_image(const Entry& entry) const;

  Shape shape_;
  std::vector<Array> arrays_;
  std::vector<Entry> entries_;
};

}  // namespace dtune
