// A folder with one folder of PNG or JPEG images per class, or with such
// folders in train/, val/ (or validation/, valid/) and test/.
#pragma once

#include <filesystem>
#include <vector>

#include "dtune/data/prepared.h"

namespace dtune {

// Classes are the names of the training split's folders, sorted by byte. Every
// image gets spec.height x spec.width; where one of them is 0 it follows from
// the first training image (its size, or its aspect). 3 channels, 1 with
// spec.gray. Hidden files and files of other endings are left out; a note names
// the images among them (GIF, WebP, ...). Throws Error(data): no class folders,
// a class without images, a class that only another split has; and by the sets'
// check(), images that do not decode (all of them, with their paths).
SourceData open_image_folder(const std::filesystem::path& root,
                             const DataSpec& spec);

// All PNG and JPEG files at any depth, by their endings, sorted by path; hidden
// ones are left out, links are followed. Throws Error(data): a link that leads
// nowhere; std::filesystem::filesystem_error: links that go round in a circle.
std::vector<std::filesystem::path> images_below(
    const std::filesystem::path& folder);

// All images in the order in which they are read.
std::vector<std::filesystem::path> image_folder_files(
    const std::filesystem::path& root);

}  // namespace dtune
