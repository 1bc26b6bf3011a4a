#include "dtune/data/folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/base/text.h"
#include "dtune/data/image.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// Images of kinds that are not read: ".gif" -> how many.
using SkippedImages = std::map<std::string, int>;

struct ClassFolder {
  std::string name;
  fs::path path;
  std::vector<fs::path> images;  // sorted
  SkippedImages skipped;
};

struct Tree {
  std::vector<ClassFolder> train;  // sorted by name
  std::vector<ClassFolder> validation;
  std::vector<ClassFolder> test;
  std::vector<std::string> beside;  // folders that are no split, sorted
  int loose = 0;                    // images that are in no class folder
};

// The file's ending in small letters, with its dot.
std::string ending_of(const fs::path& path) {
  return lower_case(path.extension().string());
}

bool is_image(const std::string& ending) {
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// Images that people have and expect to be used; other files are their own.
bool is_foreign_image(const std::string& ending) {
  constexpr std::array<std::string_view, 8> kEndings = {
      ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic", ".avif", ".jp2"};
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// "2 .gif, 1 .webp".
std::string skipped_text(const SkippedImages& skipped) {
  std::string text;
  for (const auto& [ending, count] : skipped) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, ending);
  }
  return text;
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// An image or a folder that a link promises and that is not there must not be
// left out unsaid: the study would train on less than it was given.
void refuse_dangling(const fs::directory_entry& entry) {
  if (!entry.is_symlink() || entry.exists()) return;
  fail_data(entry.path(),
            fmt::format("is a link to {}, which does not exist (mend or delete "
                        "the link)",
                        fs::read_symlink(entry.path()).string()));
}

// At any depth, with what links to folders lead to.
fs::recursive_directory_iterator entries_below(const fs::path& folder) {
  return fs::recursive_directory_iterator(
      folder, fs::directory_options::follow_directory_symlink);
}

void list_images(ClassFolder& folder) {
  folder.images = images_below(folder.path);
  for (const auto& entry : entries_below(folder.path)) {
    const std::string ending = ending_of(entry.path());
    if (entry.is_regular_file() && !is_hidden(entry.path()) &&
        is_foreign_image(ending)) {
      ++folder.skipped[ending];
    }
  }
}

[[noreturn]] void fail_empty(const ClassFolder& folder) {
  const std::string skipped = skipped_text(folder.skipped);
  fail_data(folder.path,
            skipped.empty()
                ? "holds no images (.png, .jpg or .jpeg; delete the folder if "
                  "it is not a class)"
                : fmt::format("holds no PNG or JPEG images, but {} (convert "
                              "them to PNG)",
                              skipped));
}

std::vector<ClassFolder> list_classes(const fs::path& folder) {
  std::vector<ClassFolder> classes;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    refuse_dangling(entry);
    if (!entry.is_directory()) continue;
    classes.push_back({entry.path().filename().string(), entry.path(), {}, {}});
  }
  std::sort(classes.begin(), classes.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (ClassFolder& one : classes) {
    list_images(one);
    if (one.images.empty()) fail_empty(one);
  }
  return classes;
}

// train/ is a split if it holds folders; a class of that name holds images.
bool has_splits(const fs::path& root) {
  if (!fs::is_directory(root / "train")) return false;
  for (const auto& entry : fs::directory_iterator(root / "train")) {
    if (entry.is_directory() && !is_hidden(entry.path())) return true;
  }
  return false;
}

// The images of a folder itself, where class folders are expected.
int count_loose(const fs::path& folder) {
  int loose = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string ending = ending_of(entry.path());
    const bool image = is_image(ending) || is_foreign_image(ending);
    if (image && !is_hidden(entry.path()) && entry.is_regular_file()) ++loose;
  }
  return loose;
}

// The folders of `root` but those that are used.
std::vector<std::string> folders_beside(const fs::path& root,
                                        const std::vector<std::string>& used) {
  std::vector<std::string> beside;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    const bool other = entry.is_directory() && !is_hidden(entry.path());
    if (other && !std::ranges::count(used, name)) beside.push_back(name);
  }
  std::ranges::sort(beside);
  return beside;
}

Tree list_splits(const fs::path& root) {
  Tree tree;
  std::vector<std::string> used;
  const auto take = [&](const char* name, std::vector<ClassFolder>& split) {
    const fs::path folder = root / name;
    if (!split.empty() || !fs::is_directory(folder)) return;
    split = list_classes(folder);
    tree.loose += count_loose(folder);
    used.emplace_back(name);
  };
  take("train", tree.train);
  for (const char* name : {"val", "validation", "valid"}) {
    take(name, tree.validation);
  }
  take("test", tree.test);
  tree.beside = folders_beside(root, used);
  return tree;
}

Tree list_tree(const fs::path& root) {
  Tree tree;
  if (has_splits(root)) {
    tree = list_splits(root);
  } else {
    tree.train = list_classes(root);
  }
  tree.loose += count_loose(root);
  if (tree.train.size() < 2) {
    fail_data(root, fmt::format(
                        "has {} class folder{}; at least two are needed "
                        "(one folder of images per class, or such "
                        "folders in train/, val/ and test/)",
                        tree.train.size(), tree.train.size() == 1 ? "" : "s"));
  }
  return tree;
}

// The first image that decodes; all that do not are listed later.
Image first_image(const std::vector<fs::path>& images, int channels) {
  for (const fs::path& path : images) {
    try {
      return read_image_file(path, channels);
    } catch (const Error&) {
      if (&path == &images.back()) throw;
    }
  }
  throw Error(ErrorKind::internal, "a class without images");
}

// What of the recipe's size is missing follows from the first image.
std::pair<int, int> target_size(const DataSpec& spec,
                                const ClassFolder& first_class, int channels) {
  if (spec.height > 0 && spec.width > 0) return {spec.height, spec.width};
  const Image image = first_image(first_class.images, channels);
  if (spec.height <= 0 && spec.width <= 0) return {image.height, image.width};
  const auto scaled = [](int side, int other_wanted, int other) {
    const double size = double(side) * other_wanted / other;
    return std::clamp(static_cast<int>(std::lround(size)), 1,
                      static_cast<int>(kMaxImageSide));
  };
  if (spec.height > 0) {
    return {spec.height, scaled(image.width, spec.height, image.height)};
  }
  return {scaled(image.height, spec.width, image.width), spec.width};
}

ImageSet make_set(int height, int width, int channels) {
  return {.height = height,
          .width = width,
          .channels = channels,
          .images = {},
          .labels = {}};
}

// The images of a split with their labels, in the order of their folders.
struct Listing {
  std::vector<fs::path> paths;
  std::vector<int32_t> labels;
};

Listing list_split(const std::vector<ClassFolder>& folders,
                   const std::vector<std::string>& names) {
  Listing listing;
  for (const ClassFolder& folder : folders) {
    const auto at = std::lower_bound(names.begin(), names.end(), folder.name);
    if (at == names.end() || *at != folder.name) {
      fail_data(folder.path,
                fmt::format("is a class that the training images do not have "
                            "(add a folder '{}' to train/, or delete it)",
                            folder.name));
    }
    listing.paths.insert(listing.paths.end(), folder.images.begin(),
                         folder.images.end());
    listing.labels.resize(listing.paths.size(),
                          static_cast<int32_t>(at - names.begin()));
  }
  return listing;
}

// Of the images that do not decode, "path: why": so that one run names them
// all. Thread-safe.
class BrokenImages {
 public:
  void add(const Error& error) {
    const std::lock_guard lock(mutex_);
    errors_.emplace_back(error.what());
  }

  // Throws Error(data) if there are any.
  void check(const fs::path& root) {
    constexpr size_t kMostShown = 50;
    if (errors_.empty()) return;
    if (errors_.size() == 1) throw Error(ErrorKind::data, errors_.front());
    std::sort(errors_.begin(), errors_.end());
    std::string list;
    for (size_t i = 0; i < std::min(errors_.size(), kMostShown); ++i) {
      list += "\n  " + errors_[i];
    }
    if (errors_.size() > kMostShown) {
      list += fmt::format("\n  and {} more", errors_.size() - kMostShown);
    }
    fail_data(root,
              fmt::format("{} images cannot be read:{}", errors_.size(), list));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> errors_;
};

// Decodes images on all cores; those that do not decode stay black.
void decode_images(const std::vector<fs::path>& paths,
                   std::span<const int64_t> numbers, const ImageSet& like,
                   std::span<uint8_t> out, BrokenImages& broken) {
  const size_t pixels = out.size() / std::max<size_t>(1, numbers.size());
  parallel_for(numbers.size(), [&](size_t i) {
    const fs::path& path = paths[static_cast<size_t>(numbers[i])];
    const std::span<uint8_t> place = out.subspan(i * pixels, pixels);
    std::ranges::fill(place, uint8_t{0});
    try {
      const Image image = resize_image(read_image_file(path, like.channels),
                                       like.height, like.width);
      std::ranges::copy(image.pixels, place.begin());
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      broken.add(error);
    }
  });
}

ImageSet open_split(const fs::path& root,
                    const std::vector<ClassFolder>& folders,
                    const std::vector<std::string>& names, ImageSet set,
                    const std::shared_ptr<BrokenImages>& broken) {
  Listing listing = list_split(folders, names);
  if (!checked_product({int64_t(listing.paths.size()), set.height, set.width,
                        set.channels})) {
    fail_data(root, "is too large for this image size");
  }
  set.read = [paths = std::move(listing.paths), like = set, broken](
                 std::span<const int64_t> numbers, std::span<uint8_t> out) {
    decode_images(paths, numbers, like, out, *broken);
  };
  set.labels = std::move(listing.labels);
  set.check = [root, broken] { broken->check(root); };
  return set;
}

// What was left out of all folders, as a note; "" if nothing.
std::string skipped_note(const Tree& tree) {
  SkippedImages skipped;
  for (const auto* split : {&tree.train, &tree.validation, &tree.test}) {
    for (const ClassFolder& folder : *split) {
      for (const auto& [ending, count] : folder.skipped) {
        skipped[ending] += count;
      }
    }
  }
  if (skipped.empty()) return "";
  return fmt::format(
      "images of kinds that are not read were skipped: {} (convert them to PNG "
      "or JPEG)",
      skipped_text(skipped));
}

// What users may take for used, as notes.
std::vector<std::string> unused_notes(const Tree& tree) {
  std::vector<std::string> notes;
  if (!tree.beside.empty()) {
    notes.push_back(
        fmt::format("beside train/ these folders are not used: {} (splits are "
                    "called train, val and test)",
                    fmt::join(tree.beside, ", ")));
  }
  if (tree.loose > 0) {
    notes.push_back(fmt::format(
        "{} image{} beside the class folders {} not used (each class has a "
        "folder of its own)",
        tree.loose, tree.loose == 1 ? "" : "s",
        tree.loose == 1 ? "is" : "are"));
  }
  return notes;
}

}  // namespace

SourceData open_image_folder(const fs::path& root, const DataSpec& spec) {
  const Tree tree = list_tree(root);
  const int channels = spec.gray ? 1 : 3;
  const auto [height, width] = target_size(spec, tree.train[0], channels);
  SourceData data;
  for (const ClassFolder& folder : tree.train) {
    data.class_names.push_back(folder.name);
  }
  const ImageSet empty = make_set(height, width, channels);
  const auto broken = std::make_shared<BrokenImages>();
  const auto open = [&](const std::vector<ClassFolder>& folders) {
    return open_split(root, folders, data.class_names, empty, broken);
  };
  data.train = open(tree.train);
  data.validation = open(tree.validation);
  data.test = open(tree.test);
  if (std::string note = skipped_note(tree); !note.empty()) {
    data.notes.push_back(std::move(note));
  }
  std::ranges::move(unused_notes(tree), std::back_inserter(data.notes));
  return data;
}

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> images;
  for (const auto& entry : entries_below(folder)) {
    if (is_hidden(entry.path()) || !is_image(ending_of(entry.path()))) continue;
    refuse_dangling(entry);
    if (entry.is_regular_file()) images.push_back(entry.path());
  }
  std::sort(images.begin(), images.end());
  return images;
}

std::vector<fs::path> image_folder_files(const fs::path& root) {
  const Tree tree = list_tree(root);
  std::vector<fs::path> files;
  for (const auto* split : {&tree.train, &tree.validation, &tree.test}) {
    for (const ClassFolder& folder : *split) {
      files.insert(files.end(), folder.images.begin(), folder.images.end());
    }
  }
  return files;
}

}  // namespace dtune
