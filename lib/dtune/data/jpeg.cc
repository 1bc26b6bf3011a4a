#include <csetjmp>
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>
// libjpeg's header needs stdio's before it.
#include <jerror.h>
#include <jpeglib.h>

#include "dtune/data/image.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

constexpr int kMaxScans = 500;  // of a progressive file; more is an attack
// Pixels that a byte can code at most: a bit for each block of 8x8, with room.
constexpr int64_t kMaxPixelsPerByte = 4096;

// What libjpeg's callbacks share. No function between setjmp and longjmp holds
// an object with a destructor.
struct Decoder {
  jpeg_decompress_struct info;  // first: libjpeg's pointer is also ours
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
  uint8_t* pixels;  // [output_height, output_width, output_components]
  bool begun;
};

Decoder& decoder_of(j_common_ptr info) {
  return *reinterpret_cast<Decoder*>(info);
}

[[noreturn]] void on_error(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  (*info->err->format_message)(info, decoder.message);
  std::longjmp(decoder.escape, 1);
}

// Most warnings are harmless; a file that ends early or does not decode is not.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  ++info->err->num_warnings;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
      code == JWRN_HUFF_BAD_CODE) {
    on_error(info);
  }
}

void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  if (decoder.info.input_scan_number <= kMaxScans) return;
  std::snprintf(decoder.message, sizeof decoder.message, "more than %d scans",
                kMaxScans);
  std::longjmp(decoder.escape, 1);
}

void set_up(Decoder& decoder) {
  decoder.info.err = ::jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.errors.output_message = on_output;
  decoder.progress.progress_monitor = on_progress;
}

// Reads the header and chooses what to decode to: grey, RGB or CMYK.
bool begin(Decoder& decoder, const uint8_t* bytes, size_t size) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.begun = true;
  decoder.info.progress = &decoder.progress;
  ::jpeg_mem_src(&decoder.info, bytes, size);
  ::jpeg_read_header(&decoder.info, TRUE);
  const J_COLOR_SPACE stored = decoder.info.jpeg_color_space;
  decoder.info.out_color_space = stored == JCS_GRAYSCALE ? JCS_GRAYSCALE
                                 : stored == JCS_CMYK || stored == JCS_YCCK
                                     ? JCS_CMYK
                                     : JCS_RGB;
  decoder.info.dct_method = JDCT_ISLOW;  // the same bits everywhere
  ::jpeg_calc_output_dimensions(&decoder.info);
  return true;
}

bool decode(Decoder& decoder) {
  if (setjmp(decoder.escape) != 0) return false;
  ::jpeg_start_decompress(&decoder.info);
  const size_t row_bytes = size_t{decoder.info.output_width} *
                           static_cast<size_t>(decoder.info.output_components);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = decoder.pixels + decoder.info.output_scanline * row_bytes;
    ::jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  ::jpeg_finish_decompress(&decoder.info);
  return true;
}

class JpegFile {
 public:
  JpegFile() { set_up(decoder); }
  ~JpegFile() {
    if (decoder.begun) ::jpeg_destroy_decompress(&decoder.info);
  }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;
  Decoder decoder{};
};

// Ink to light; Adobe's files hold it inverted already.
void cmyk_to_rgb(std::vector<uint8_t>& pixels, bool inverted) {
  size_t to = 0;
  for (size_t from = 0; from < pixels.size(); from += 4) {
    const int black = inverted ? pixels[from + 3] : 255 - pixels[from + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = inverted ? pixels[from + c] : 255 - pixels[from + c];
      pixels[to++] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
  }
  pixels.resize(to);
}

[[noreturn]] void fail_jpeg(const std::filesystem::path& where,
                            const Decoder& decoder) {
  fail_data(where, fmt::format("is a JPEG that does not decode: {} (replace or "
                               "delete it)",
                               decoder.message));
}

void check_size(const jpeg_decompress_struct& info, size_t file_bytes,
                const std::filesystem::path& where) {
  const int64_t pixels =
      int64_t{info.output_width} * int64_t{info.output_height};
  if (pixels > kMaxImagePixels) {
    fail_data(where, fmt::format("is a JPEG of {}x{} pixels; at most {} are "
                                 "read",
                                 info.output_width, info.output_height,
                                 kMaxImagePixels));
  }
  if (pixels / kMaxPixelsPerByte > static_cast<int64_t>(file_bytes)) {
    fail_data(where,
              fmt::format("is a JPEG that claims {}x{} pixels in {} bytes "
                          "(damaged: replace or delete it)",
                          info.output_width, info.output_height, file_bytes));
  }
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes,
                  const std::filesystem::path& where) {
  JpegFile file;
  Decoder& decoder = file.decoder;
  if (!begin(decoder, bytes.data(), bytes.size())) fail_jpeg(where, decoder);
  check_size(decoder.info, bytes.size(), where);
  Image image{.height = static_cast<int>(decoder.info.output_height),
              .width = static_cast<int>(decoder.info.output_width),
              .channels = decoder.info.output_components == 1 ? 1 : 3,
              .pixels = {}};
  image.pixels.resize(size_t{decoder.info.output_width} *
                      size_t{decoder.info.output_height} *
                      static_cast<size_t>(decoder.info.out_color_components));
  decoder.pixels = image.pixels.data();
  const bool cmyk = decoder.info.out_color_space == JCS_CMYK;
  if (!decode(decoder)) fail_jpeg(where, decoder);
  if (cmyk) {
    cmyk_to_rgb(image.pixels, decoder.info.saw_Adobe_marker == TRUE);
  }
  return image;
}

}  // namespace dtune
