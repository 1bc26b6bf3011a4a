// Safetensors files: what checkpoints and final models are kept in, and what
// Python's `safetensors` opens. No LibTorch.
//
// The format (https://github.com/huggingface/safetensors, "Format"): 8 bytes,
// little-endian: length n of the header; n bytes of JSON,
//   {"__metadata__": {text: text}, name: {"dtype": "F32", "shape": [2, 3],
//    "data_offsets": [begin, end]}, ...}, padded with spaces;
// then the data, to which the offsets are relative, without gaps or overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/base/file.h"

namespace dtune {

// One tensor of a file: row-major numbers of type `dtype` at data[begin, end).
struct TensorEntry {
  std::string dtype;  // "F32", "U8", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

using TextMap = std::map<std::string, std::string>;

// The checked header of a file.
struct SafetensorsHeader {
  TextMap metadata;
  std::map<std::string, TensorEntry> tensors;
  uint64_t data_begin = 0;  // offset of the data in the file
};

// Checks everything: lengths, JSON, types, that each tensor's bytes are those
// of its shape, and that the tensors cover the data exactly, in whatever order.
// Throws Error(data) that starts with `name` and says what is wrong.
// `bytes`: the whole file.
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes,
                                    const std::string& name);

// A file, mapped. Spans are valid while this lives.
class SafetensorsFile {
 public:
  // Throws Error(data): cannot be opened, damaged.
  explicit SafetensorsFile(const std::filesystem::path& path);
  // The same of a file in memory, which must outlive this and be aligned to 8
  // bytes; `name` is what errors call it.
  SafetensorsFile(std::span<const std::byte> bytes, std::string name);

  const SafetensorsHeader& header() const { return header_; }
  const TextMap& metadata() const { return header_.metadata; }

  // The metadata's text, or Error(data) naming file and key.
  const std::string& text(const std::string& key) const;

  // Numbers of tensor `name`, which must be F32 of that shape: Error(data)
  // naming file, tensor and both shapes otherwise.
  std::span<const float> floats(const std::string& name,
                                std::span<const int64_t> shape) const;
  // Likewise of a tensor of type F16 (surrogate/half.h) or F64.
  std::span<const uint16_t> halves(const std::string& name,
                                   std::span<const int64_t> shape) const;
  std::span<const double> doubles(const std::string& name,
                                  std::span<const int64_t> shape) const;
  // The shape of a tensor, or Error(data) where it is missing or has another
  // number of dimensions.
  std::vector<int64_t> shape(const std::string& name, size_t dimensions) const;

  // Everything behind the header.
  std::span<const std::byte> data() const {
    return bytes_.subspan(header_.data_begin);
  }
  const std::string& name() const { return name_; }

 private:
  const TensorEntry& entry(const std::string& name) const;
  template <typename T>
  std::span<const T> values(const std::string& name, const char* dtype,
                            std::span<const int64_t> shape) const;

  std::string name_;
  std::optional<MappedFile> file_;
  std::span<const std::byte> bytes_;
  SafetensorsHeader header_;
};

// A tensor of any type to write, its bytes as they are in the file; they must
// live until the file is written.
struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// A tensor to write; `values` must live until the file is written.
struct FloatTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

// Replaces the file atomically; `durable` as in write_file_atomic. The values
// are written from where they are, without a copy, in this order and from a
// multiple of 8 bytes on. REQUIRES: names are unique and shapes fit the values.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const FloatTensor> tensors,
                       const TextMap& metadata, bool durable);
void write_raw_safetensors(const std::filesystem::path& path,
                           std::span<const RawTensor> tensors,
                           const TextMap& metadata, bool durable);

}  // namespace dtune
