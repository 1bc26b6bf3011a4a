#include "data/fixtures.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <jpeglib.h>
#include <png.h>
#include <zip.h>
#include <zlib.h>

namespace dtune::testing {

namespace fs = std::filesystem;

void write_bytes(const fs::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

Bytes read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

Bytes bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

Bytes gzip(const Bytes& bytes) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) ==
          Z_OK);
  Bytes out(deflateBound(&z, bytes.size()) + 32);
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

Bytes idx_bytes(const std::vector<uint32_t>& shape, const Bytes& values) {
  Bytes bytes = {0, 0, 8, static_cast<uint8_t>(shape.size())};
  for (const uint32_t size : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<uint8_t>(size >> shift));
    }
  }
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

void write_idx_folder(const fs::path& folder, int train, int test) {
  fs::create_directories(folder);
  for (const auto& [split, count] :
       {std::pair{"train", train}, std::pair{"t10k", test}}) {
    Bytes labels;
    Bytes pixels;
    for (int i = 0; i < count; ++i) {
      labels.push_back(static_cast<uint8_t>(i % 10));
      for (int p = 0; p < 784; ++p) {
        pixels.push_back(static_cast<uint8_t>(10 * (i % 10) + p % 7));
      }
    }
    const auto n = static_cast<uint32_t>(count);
    write_bytes(folder / fmt::format("{}-images-idx3-ubyte.gz", split),
                gzip(idx_bytes({n, 28, 28}, pixels)));
    write_bytes(folder / fmt::format("{}-labels-idx1-ubyte.gz", split),
                gzip(idx_bytes({n}, labels)));
  }
}

Bytes npy_bytes(const std::string& type, const std::vector<int64_t>& shape,
                const Bytes& values, bool fortran_order, int version) {
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}{}), }}",
                  type, fortran_order ? "True" : "False",
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const size_t start = version == 1 ? 10 : 12;
  while ((start + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', uint8_t(version), 0};
  bytes.push_back(static_cast<uint8_t>(text.size()));
  bytes.push_back(static_cast<uint8_t>(text.size() >> 8));
  if (version > 1) bytes.insert(bytes.end(), {0, 0});
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

Bytes float_bytes(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void write_npz(const fs::path& path,
               const std::map<std::string, Bytes>& members, Packing packing) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  REQUIRE(zip != nullptr);
  for (const auto& [name, bytes] : members) {
    zip_source_t* source =
        zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    const zip_int64_t index =
        zip_file_add(zip, (name + ".npy").c_str(), source, 0);
    REQUIRE(index >= 0);
    zip_set_file_compression(
        zip, zip_uint64_t(index),
        packing == Packing::stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0);
  }
  REQUIRE(zip_close(zip) == 0);
}

std::map<std::string, Bytes> npz_split(const std::string& split, int count,
                                       int classes, int channels) {
  Bytes pixels;
  Bytes labels;
  for (int i = 0; i < count; ++i) {
    labels.push_back(static_cast<uint8_t>(i % classes));
    for (int p = 0; p < 20 * channels; ++p) {
      pixels.push_back(static_cast<uint8_t>(i + p));
    }
  }
  std::vector<int64_t> shape = {count, 4, 5};
  if (channels > 1) shape.push_back(channels);
  return {{split + "_images", npy_bytes("|u1", shape, pixels)},
          {split + "_labels", npy_bytes("|u1", {count, 1}, labels)}};
}

Image flat_image(int height, int width, const Bytes& colour) {
  Image image{.height = height,
              .width = width,
              .channels = static_cast<int>(colour.size()),
              .pixels = {}};
  for (int i = 0; i < height * width; ++i) {
    image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
  }
  return image;
}

Bytes png_bytes(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_to_memory(&png, nullptr, &size, 0,
                                    image.pixels.data(), 0, nullptr) != 0);
  Bytes bytes(size);
  REQUIRE(png_image_write_to_memory(&png, bytes.data(), &size, 0,
                                    image.pixels.data(), 0, nullptr) != 0);
  bytes.resize(size);
  return bytes;
}

namespace {

Bytes encode_jpeg(const Image& image, J_COLOR_SPACE space, int quality,
                  bool progressive) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = space;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const size_t stride = size_t(image.width) * size_t(image.channels);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<JSAMPROW>(image.pixels.data()) + info.next_scanline * stride;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes bytes(out, out + size);
  jpeg_destroy_compress(&info);
  std::free(out);
  return bytes;
}

void append_png(png_structp png, png_bytep data, png_size_t size) {
  auto* out = static_cast<Bytes*>(png_get_io_ptr(png));
  out->insert(out->end(), data, data + size);
}

void flush_png(png_structp) {}

}  // namespace

Bytes jpeg_bytes(const Image& image, int quality, bool progressive) {
  return encode_jpeg(image, image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB,
                     quality, progressive);
}

Bytes cmyk_jpeg_bytes(int height, int width, const Bytes& ink) {
  Bytes inverted;
  for (const uint8_t part : ink) inverted.push_back(uint8_t(255 - part));
  return encode_jpeg(flat_image(height, width, inverted), JCS_CMYK, 100, false);
}

Bytes raw_png_bytes(const RawPng& raw) {
  Bytes out;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, append_png, flush_png);
  png_set_IHDR(png, info, png_uint_32(raw.width), png_uint_32(raw.height),
               raw.depth, raw.type,
               raw.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (size_t i = 0; i + 2 < raw.palette.size(); i += 3) {
    palette.push_back({raw.palette[i], raw.palette[i + 1], raw.palette[i + 2]});
  }
  if (!palette.empty()) {
    png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  }
  const size_t stride = raw.rows.size() / size_t(raw.height);
  std::vector<png_bytep> rows;
  for (size_t y = 0; y < size_t(raw.height); ++y) {
    rows.push_back(const_cast<png_bytep>(raw.rows.data()) + y * stride);
  }
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

std::string error_of(const std::function<void()>& run, const fs::path& folder) {
  try {
    run();
  } catch (const Error& error) {
    std::string text = error.what();
    const std::string prefix = folder.string() + "/";
    for (size_t at = text.find(prefix); at != std::string::npos;
         at = text.find(prefix)) {
      text.erase(at, prefix.size());
    }
    return std::string(to_string(error.kind())) + ": " + text;
  }
  return "";
}

}  // namespace dtune::testing
