// The network that corrects the process (correction.h): a ConvLSTM over what
// the process says of the recorded cube, read in order of training time.
//
// Two layers (Shi et al. 2015, "Convolutional LSTM network", arXiv 1506.04214,
// eq. 3, without peepholes), of a voxel v and frame t:
//   a = W * [x_t, h_(t-1)] + P [pool x_t, pool h_(t-1)] + b,   W * : 3x3x3
//   i, f, o = sigmoid(a_i), sigmoid(a_f), sigmoid(a_o);  g = tanh(a_g)
//   c_t = f c_(t-1) + i g,   h_t = o tanh(c_t)
// in a zero frame. An addition to the source: P maps the mean and the largest
// value over all voxels to all gates, so that every voxel sees every
// observation, however few there are. The second layer reads the first one's
// h. A head answers for each voxel and frame t:
//   tanh(A [h1_T, h2_T, h1_t, h2_t, features_t] + b) -> 9 numbers,
// T the last frame, made into a mixture of three normals (mixture_of in
// conv_lstm_parts.h). The last map starts at zero: an untrained network answers
// kHeavyTails.
//
// Inference alone, without LibTorch: it starts in milliseconds. Training is in
// pretrain/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/safetensors.h"
#include "dtune/surrogate/correction.h"

namespace dtune {

// Kept in the weights' file.
struct ConvLstmShape {
  int hidden = 16;  // channels of h, of each layer: a multiple of 4, up to 128
  int head = 32;    // width of the head: a multiple of 16, up to 256

  bool operator==(const ConvLstmShape&) const = default;
};

// Metadata of a network's file: the recorded data sets that it was not trained
// on, with commas.
inline constexpr const char* kLeftOutKey = "left_out";

// Thread-safe while parameters() are not written to: every call has scratch
// memory of its own (about 1 MB with 16 channels, kept for later calls until
// the network and its copies are gone).
class ConvLstm {
 public:
  // A fresh network: weights by chance, the same for the same seed.
  // Throws Error(config) where the shape is out of the bounds above.
  ConvLstm(const ConvLstmShape& shape, uint64_t seed);

  // A file written by save(). Throws Error(data) that names the file: missing,
  // damaged, of another kind, another architecture or with numbers that are
  // not finite.
  static ConvLstm load(const std::filesystem::path& path);
  // The same of a file that is in memory; `name` is for messages.
  static ConvLstm from_bytes(std::span<const std::byte> bytes,
                             const std::string& name);
  // Replaces the file atomically. `metadata` are added to the file's; keys that
  // begin with "conv_lstm." are its own.
  void save(const std::filesystem::path& path, const TextMap& metadata) const;

  const ConvLstmShape& shape() const { return shape_; }
  // Of the file that this was read from; else empty.
  const TextMap& metadata() const { return metadata_; }
  // All weights in a row, in the order of the file's tensors.
  size_t parameter_count() const { return parameters_.size(); }
  std::span<float> parameters() { return parameters_; }
  std::span<const float> parameters() const { return parameters_; }

  // A distribution of z for every [frame][lr][l2][dropout]; kHeavyTails where
  // the input or the answer is not finite.
  // REQUIRES: vectors of kGridFrames * kGridVoxels.
  std::vector<Correction> correct(const GridFeatures& study) const;

 private:
  class ScratchPool;

  explicit ConvLstm(const ConvLstmShape& shape);

  ConvLstmShape shape_;
  TextMap metadata_;
  std::vector<float> parameters_;
  std::shared_ptr<ScratchPool> pool_;  // of this shape
};

}  // namespace dtune
