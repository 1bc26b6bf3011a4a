#include "dtune/data/prepared_writer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "dtune/base/error.h"
#include "dtune/data/class_name.h"
#include "dtune/data/prepared_format.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// A file under a temporary name, removed unless committed. Keeps the check sum
// of what was appended.
class SectionWriter {
 public:
  explicit SectionWriter(const fs::path& path)
      : path_(path), temporary_(path.string() + ".tmp") {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    descriptor_ = ::open(temporary_.c_str(), kFlags, 0644);
    if (descriptor_ < 0) fail("cannot be created", errno);
  }
  ~SectionWriter() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!committed_) ::unlink(temporary_.c_str());
  }
  SectionWriter(const SectionWriter&) = delete;
  SectionWriter& operator=(const SectionWriter&) = delete;

  // Leaves room for the header, which is written last.
  void skip_header() {
    if (::lseek(descriptor_, sizeof(PreparedHeader), SEEK_SET) < 0) {
      fail("cannot be written", errno);
    }
    offset_ = sizeof(PreparedHeader);
  }

  uint64_t align() {
    static constexpr std::byte kZeros[kPreparedAlignment] = {};
    const uint64_t over = offset_ % kPreparedAlignment;
    if (over != 0) append({kZeros, kPreparedAlignment - over});
    return offset_;
  }

  void append(std::span<const std::byte> bytes) {
    crc_ = ::crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()),
                     bytes.size());
    offset_ += bytes.size();
    write_all(bytes);
  }

  void commit(PreparedHeader header) {
    header.file_bytes = offset_;
    header.body_crc = static_cast<uint32_t>(crc_);
    header.header_crc = header_crc(header);
    if (::lseek(descriptor_, 0, SEEK_SET) < 0) fail("cannot be written", errno);
    write_all(std::as_bytes(std::span(&header, 1)));
    if (::close(std::exchange(descriptor_, -1)) != 0) {
      fail("cannot be written", errno);
    }
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail("cannot be renamed", errno);
    }
    committed_ = true;
  }

 private:
  void write_all(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot be written", errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }

  [[noreturn]] void fail(const char* what, int code) const {
    const bool full = code == ENOSPC || code == EDQUOT;
    throw Error(
        full ? ErrorKind::temporary : ErrorKind::data,
        fmt::format("{}: {}: {} ({})", path_.string(), what, errno_text(code),
                    full ? "free some space, or set XDG_CACHE_HOME to a folder "
                           "on another disk"
                         : "set XDG_CACHE_HOME to a folder that can be "
                           "written"));
  }

  fs::path path_;
  fs::path temporary_;
  int descriptor_ = -1;
  uint64_t offset_ = 0;
  uLong crc_ = 0;
  bool committed_ = false;
};

size_t pixels_of(const ImageSet& set) {
  return size_t(set.height) * size_t(set.width) * size_t(set.channels);
}

// One write for every run of neighbours.
void append_images(SectionWriter& out, const ImageSet& set,
                   const std::vector<int64_t>& indices) {
  const size_t pixels = pixels_of(set);
  const auto bytes = std::as_bytes(std::span(set.images));
  for (size_t i = 0; i < indices.size();) {
    size_t end = i + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    out.append(bytes.subspan(size_t(indices[i]) * pixels, (end - i) * pixels));
    i = end;
  }
}

PreparedSplit append_split(SectionWriter& out, const ImageSet& set,
                           const std::vector<int64_t>& indices) {
  PreparedSplit split{};
  split.count = static_cast<int64_t>(indices.size());
  split.images_offset = out.align();
  append_images(out, set, indices);
  std::vector<int32_t> labels;
  labels.reserve(indices.size());
  for (const int64_t i : indices) labels.push_back(set.labels[size_t(i)]);
  split.labels_offset = out.align();
  out.append(std::as_bytes(std::span(labels)));
  return split;
}

uint64_t append_words(SectionWriter& out,
                      const std::vector<std::string>& words) {
  uint64_t bytes = 0;
  for (const std::string& raw : words) {
    const std::string word = printable_name(raw);
    const auto length = static_cast<uint32_t>(word.size());
    out.append(std::as_bytes(std::span(&length, 1)));
    out.append(std::as_bytes(std::span(word)));
    bytes += sizeof length + word.size();
  }
  return bytes;
}

void check_space(const fs::path& path, const ImageSet& train,
                 const SourceData& source, const SplitPlan& plan) {
  const size_t samples =
      plan.train.size() + plan.validation.size() + plan.test.size();
  const uint64_t need = samples * (pixels_of(train) + sizeof(int32_t)) +
                        source.class_names.size() * 64 + 4096;
  const uint64_t have = free_bytes(path);
  if (need <= have) return;
  throw Error(ErrorKind::temporary,
              fmt::format("{}: needs {} of disk space, {} are free (free some "
                          "space, or set XDG_CACHE_HOME to a folder on another "
                          "disk)",
                          path.parent_path().string(), format_bytes(need),
                          format_bytes(have)));
}

}  // namespace

PixelStatistics pixel_statistics(const ImageSet& set,
                                 const std::vector<int64_t>& indices) {
  const auto channels = static_cast<size_t>(set.channels);
  std::vector<std::array<uint64_t, 256>> histogram(channels);
  const size_t pixels = pixels_of(set);
  for (const int64_t i : indices) {
    const uint8_t* at = set.images.data() + size_t(i) * pixels;
    for (size_t p = 0; p < pixels; p += channels) {
      for (size_t c = 0; c < channels; ++c) ++histogram[c][at[p + c]];
    }
  }
  PixelStatistics statistics;
  for (const auto& counts : histogram) {
    double n = 0;
    double sum = 0;
    double squares = 0;
    for (size_t v = 0; v < counts.size(); ++v) {
      const auto weight = static_cast<double>(counts[v]);
      n += weight;
      sum += weight * double(v);
      squares += weight * double(v * v);
    }
    const double mean = sum / n;
    const double variance = std::max(squares / n - mean * mean, 0.0);
    statistics.mean.push_back(static_cast<float>(mean / 255));
    statistics.deviation.push_back(
        static_cast<float>(std::max(std::sqrt(variance) / 255, 1e-3)));
  }
  return statistics;
}

void write_prepared(const fs::path& path, const SourceData& source,
                    const SplitPlan& plan, uint64_t key) {
  const ImageSet& train = source.train;
  check_space(path, train, source, plan);
  SectionWriter out(path);
  PreparedHeader header{};
  header.magic = kPreparedMagic;
  header.version = kPreparedVersion;
  header.byte_order = kPreparedByteOrder;
  header.key = key;
  header.channels = train.channels;
  header.height = train.height;
  header.width = train.width;
  header.classes = static_cast<int32_t>(source.class_names.size());
  out.skip_header();
  header.names_offset = out.align();
  header.names_bytes = append_words(out, source.class_names);
  header.notes_offset = out.align();
  header.notes_bytes = append_words(out, source.notes);
  const PixelStatistics statistics = pixel_statistics(train, plan.train);
  header.statistics_offset = out.align();
  out.append(std::as_bytes(std::span(statistics.mean)));
  out.append(std::as_bytes(std::span(statistics.deviation)));
  header.splits = {
      append_split(out, train, plan.train),
      append_split(out, plan.validation_set(source), plan.validation),
      append_split(out, plan.test_set(source), plan.test)};
  out.commit(header);
}

}  // namespace dtune
