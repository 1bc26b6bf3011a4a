// The `data:` section of a recipe: which images, how they are split and
// augmented. Plain data; sizes are in samples and pixels.
#pragma once

#include <cstdint>
#include <string>

namespace dtune {

enum class DataKind {
  fashion_mnist,  // four gzip IDX files
  mnist,          // likewise
  cifar10,        // binary version: data_batch_*.bin, test_batch.bin
  cifar100,       // train.bin, test.bin
  npz,            // MedMNIST style: {train,val,test}_{images,labels}
  folder,         // folder of class folders with PNG or JPEG
  synthetic,      // made from a seed: blobs with learnable class patterns
};

// Of training images; train/augment.h says in which order and from what random
// numbers.
struct Augmentation {
  bool flip = false;  // mirror left-right with probability 1/2
  int shift = 0;      // shift by up to this many pixels each way, zero-filled
  int crop = 0;       // likewise, filled with the mirrored border
  int cutout = 0;     // side of a square that gets the mean colour
  double jitter = 0;  // brightness, contrast, saturation: times 1 +- this
  double mixup = 0;   // mean with another image; alpha of its weights' Beta
  double cutmix = 0;  // a rectangle of another image; alpha of its area's Beta
};

struct DataSpec {
  DataKind kind = DataKind::fashion_mnist;
  std::string path;         // file or folder; "": where the system package is
  double validation = 0.1;  // share (< 1) or number (>= 1) of training samples;
                            // unused where the data bring a validation split
  double test = 0.15;       // of a folder or NPZ without one: likewise
  uint64_t split_seed = 0;  // of the splits: the same in all trials
  int64_t limit = 0;        // use at most this many training samples; 0: all
  bool normalize = true;    // by mean and deviation of the training split
  int height = 0;           // folder: resize to; 0: size of the first image
  int width = 0;
  bool gray = false;  // folder: read as one channel
  Augmentation augment;
  // synthetic:
  int classes = 10;
  int channels = 1;
  int64_t samples = 4096;   // training + validation; test is a quarter more
  double difficulty = 0.5;  // noise against signal, 0 (trivial) to 1 (chance)
  // Classes of equal weight in the loss instead of samples.
  bool balance = false;
};

const char* to_string(DataKind kind);

}  // namespace dtune
