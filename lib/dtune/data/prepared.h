// Prepared data sets: every supported source decoded once into one flat file
// that all workers of a machine map (one copy in memory for all slots).
// No LibTorch here: readers build in seconds and are fuzzed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/file.h"
#include "dtune/study/data_spec.h"
#include "dtune/study/layers.h"

namespace dtune {

// Images and labels of one split; the images in memory or on their way.
// images: [count, height, width, channels] uint8 (NHWC, rows top to bottom).
struct ImageSet {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;  // [count], 0 .. classes-1
  // Where `images` is empty, they are still in the source: fills `out` with
  // those of these numbers, which rise. Throws Error(data).
  std::function<void(std::span<const int64_t> numbers, std::span<uint8_t> out)>
      read = nullptr;
  // To be called when all was read: throws Error(data) for what was found
  // wrong.
  std::function<void()> check = nullptr;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

// A whole source as its reader found it. Splits that a source does not have
// are empty; `train` never is.
struct SourceData {
  ImageSet train;
  ImageSet validation;
  ImageSet test;
  std::vector<std::string> class_names;  // size() == number of classes
  std::vector<std::string> notes;        // what users should know: sentences
};

// Finds out what the source that `spec` names has; images of folders and NPZ
// archives stay there until they are read. Throws Error(data): missing (says
// which package or where to get it), truncated, wrong magic, not gzip, claims
// more than it holds, does not decode: each with the file's path.
SourceData open_source(const DataSpec& spec);

// Where `spec`'s source is expected: its path or the system package's folder.
std::filesystem::path source_path(const DataSpec& spec);

struct PreparedHeader;  // prepared_format.h

enum class Split { train, validation, test };

// A prepared file, mapped read-only. Cheap to move. Thread-safe for reading.
class PreparedData {
 public:
  // Throws Error(data) if the file is not one of ours, of another version or
  // damaged (its check sum is verified when it is made, its sizes here).
  explicit PreparedData(const std::filesystem::path& path);

  Shape image_shape() const;  // channels, height, width
  int classes() const;
  const std::vector<std::string>& class_names() const { return class_names_; }
  // What users should know of how the source was read: sentences, often none.
  const std::vector<std::string>& notes() const { return notes_; }
  int64_t count(Split split) const;

  // [count, height, width, channels] uint8; valid while this lives.
  std::span<const uint8_t> images(Split split) const;
  std::span<const int32_t> labels(Split split) const;

  // Per channel, of the training split's pixels scaled to [0, 1].
  std::span<const float> mean() const;       // [channels]
  std::span<const float> deviation() const;  // [channels], at least 1e-3

 private:
  const PreparedHeader& header() const;
  MappedFile file_;
  std::vector<std::string> class_names_;
  std::vector<std::string> notes_;
};

// Reads the source, splits it by spec.split_seed (stratified by class), takes
// mean and deviation of what is left for training, and writes the file. If a
// file for the same spec and unchanged sources is already in `cache` (key: a
// hash of the spec's data keys, the sources' paths, sizes and times), returns
// that. Safe against other processes that do the same at once (lock, temporary
// file, rename). Returns the path.
std::filesystem::path prepare_data(const DataSpec& spec,
                                   const std::filesystem::path& cache);

}  // namespace dtune
