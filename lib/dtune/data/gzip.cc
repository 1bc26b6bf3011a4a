#include "dtune/data/gzip.h"

#include <algorithm>
#include <climits>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "dtune/data/source_error.h"

namespace dtune {

struct InflatingReader::Stream {
  Stream() {
    constexpr int kGzipOnly = 15 + 16;
    if (::inflateInit2(&z, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { ::inflateEnd(&z); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream z{};
  bool ended = false;  // after the last member
};

InflatingReader::InflatingReader(std::span<const uint8_t> bytes,
                                 std::filesystem::path where)
    : bytes_(bytes), where_(std::move(where)) {
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
    stream_ = std::make_unique<Stream>();
  }
}

InflatingReader::~InflatingReader() = default;

bool InflatingReader::compressed() const { return stream_ != nullptr; }

uint64_t InflatingReader::most_bytes() const {
  return compressed() ? bytes_.size() * kMaxDeflateRatio : bytes_.size();
}

size_t InflatingReader::read(std::span<uint8_t> out) {
  if (!compressed()) return read_plain(out);
  size_t done = 0;
  while (done < out.size() && !stream_->ended) {
    done += inflate_some(out.subspan(done));
  }
  return done;
}

size_t InflatingReader::read_plain(std::span<uint8_t> out) {
  const size_t n = std::min(out.size(), bytes_.size());
  std::copy_n(bytes_.begin(), n, out.begin());
  bytes_ = bytes_.subspan(n);
  return n;
}

size_t InflatingReader::inflate_some(std::span<uint8_t> out) {
  z_stream& z = stream_->z;
  const size_t in_size = std::min<size_t>(bytes_.size(), UINT_MAX);
  const size_t out_size = std::min<size_t>(out.size(), UINT_MAX);
  z.next_in = const_cast<Bytef*>(bytes_.data());  // zlib only reads it
  z.avail_in = static_cast<uInt>(in_size);
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out_size);
  const int code = ::inflate(&z, Z_NO_FLUSH);
  bytes_ = bytes_.subspan(in_size - z.avail_in);
  if (code == Z_STREAM_END) {
    stream_->ended = bytes_.empty();
    if (!stream_->ended) ::inflateReset(&z);  // another member follows
  } else if (code == Z_MEM_ERROR) {
    throw std::bad_alloc();
  } else if (code == Z_BUF_ERROR && bytes_.empty()) {
    fail_data(where_,
              "is truncated: the gzip data are incomplete (fetch the "
              "file again)");
  } else if (code != Z_OK) {
    fail_data(where_,
              fmt::format("is damaged: {} (fetch the file again)",
                          z.msg != nullptr ? z.msg : "not valid gzip data"));
  }
  return out_size - z.avail_out;
}

}  // namespace dtune
