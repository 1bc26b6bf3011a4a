// NPZ archives in the layout of MedMNIST v2 (Yang et al. 2023,
// doi 10.1038/s41597-022-01721-8) or of Keras:
//   train_images, train_labels, [val_..., test_...]   or
//   x_train, y_train, [x_val, y_val, x_test, y_test]
// images [N, H, W] or [N, H, W, C] of whole numbers from 0 to 255 or of floats
// (npz_pixels.h), labels [N] or [N, 1].
#pragma once

#include <filesystem>
#include <memory>

#include "dtune/data/npz_array.h"
#include "dtune/data/prepared.h"
#include "dtune/data/zip_archive.h"

namespace dtune {

// Classes are 0 .. the largest label of the training split, named by number.
// Throws Error(data) with the archive and the member. Images in C order stay in
// the archive until they are read.
SourceData open_npz(const std::shared_ptr<ZipArchive>& archive);

// The images of one array, without labels or a data set around it. Throws
// Error(data) naming the array: another shape than above, values that are no
// pixels, floats outside of [0, 1] whose scale only training images could tell.
ImageSet npz_images(const NpzArray& array);

}  // namespace dtune
