// Small data files made on the spot, by the libraries that users' tools use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dtune/data/image.h"
#include "dtune/data/prepared.h"

namespace dtune::testing {

using Bytes = std::vector<uint8_t>;

void write_bytes(const std::filesystem::path& path, const Bytes& bytes);
Bytes read_bytes(const std::filesystem::path& path);
Bytes bytes_of(const std::string& text);
Bytes gzip(const Bytes& bytes);

// IDX with uint8 values.
Bytes idx_bytes(const std::vector<uint32_t>& shape, const Bytes& values);

// Four gzip IDX files, `train` and `test` images of 28x28; image i has label
// i % 10 and pixels of 10 * label + (pixel index % 7).
void write_idx_folder(const std::filesystem::path& folder, int train, int test);

// .npy, version 1: `type` "|u1", "<i8", ...; `values` as they lie in the file.
Bytes npy_bytes(const std::string& type, const std::vector<int64_t>& shape,
                const Bytes& values, bool fortran_order = false,
                int version = 1);

// As NumPy's '<f4' has them.
Bytes float_bytes(const std::vector<float>& values);

enum class Packing { stored, deflated };
// `members`: name without .npy -> bytes.
void write_npz(const std::filesystem::path& path,
               const std::map<std::string, Bytes>& members,
               Packing packing = Packing::deflated);

// count images of 4x5x`channels` (1: [N, 4, 5]) and labels i % classes.
std::map<std::string, Bytes> npz_split(const std::string& split, int count,
                                       int classes, int channels = 1);

// One colour all over; channels 1 or 3.
Image flat_image(int height, int width, const Bytes& colour);
Bytes png_bytes(const Image& image);
// `quality` 1 to 100; `progressive` as cameras do not, but web sites do.
Bytes jpeg_bytes(const Image& image, int quality = 95,
                 bool progressive = false);
// CMYK as Adobe's programs write it (inverted), one colour all over.
Bytes cmyk_jpeg_bytes(int height, int width, const Bytes& ink);
// Written row by row by libpng; type is PNG_COLOR_TYPE_*.
struct RawPng {
  int height = 1;
  int width = 1;
  int depth = 8;
  int type = 0;
  Bytes rows = {};     // packed as PNG packs them
  Bytes palette = {};  // red, green, blue, ...
  bool interlaced = false;
};
Bytes raw_png_bytes(const RawPng& png);

// "kind: text" of the Error that `run` throws, `folder` in it cut out; "" if
// none.
std::string error_of(const std::function<void()>& run,
                     const std::filesystem::path& folder);

}  // namespace dtune::testing
