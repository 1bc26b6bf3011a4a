#include "dtune/data/prepared_writer.h"

#include <algorithm>
#include <array>
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
    offset_ = sizeof(PreparedHeader);
    seek(offset_);
  }

  uint64_t align() {
    static constexpr std::byte kZeros[kPreparedAlignment] = {};
    const uint64_t over = offset_ % kPreparedAlignment;
    if (over != 0) append({kZeros, kPreparedAlignment - over});
    return offset_;
  }

  void append(std::span<const std::byte> bytes) {
    crc_ = crc_of(crc_, bytes);
    offset_ += bytes.size();
    write_all(bytes);
  }

  // Leaves room for what is known later only; once.
  uint64_t leave(size_t bytes) {
    gap_ = {.offset = offset_, .bytes = bytes, .crc_before = crc_};
    offset_ += bytes;
    crc_ = 0;
    seek(offset_);
    return gap_.offset;
  }
  void fill(std::span<const std::byte> bytes) {
    DTUNE_CHECK(bytes.size() == gap_.bytes);
    gap_.crc = crc_of(0, bytes);
    seek(gap_.offset);
    write_all(bytes);
    seek(offset_);
  }

  void commit(PreparedHeader header) {
    header.file_bytes = offset_;
    header.body_crc = static_cast<uint32_t>(body_crc());
    header.header_crc = header_crc(header);
    seek(0);
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
  struct Gap {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uLong crc_before = 0;  // of what was appended before it
    uLong crc = 0;         // of what it was filled with
  };

  static uLong crc_of(uLong crc, std::span<const std::byte> bytes) {
    return ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()),
                     bytes.size());
  }

  uLong body_crc() const {
    const auto after = static_cast<z_off_t>(offset_ - gap_.offset - gap_.bytes);
    const auto inside = static_cast<z_off_t>(gap_.bytes);
    const uLong until = ::crc32_combine(gap_.crc_before, gap_.crc, inside);
    return ::crc32_combine(until, crc_, after);
  }

  void seek(uint64_t offset) {
    if (::lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0) {
      fail("cannot be written", errno);
    }
  }

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
  uLong crc_ = 0;  // of what was appended since the gap
  Gap gap_;
  bool committed_ = false;
};

size_t pixels_of(const ImageSet& set) {
  return size_t(set.height) * size_t(set.width) * size_t(set.channels);
}

// Of the pixels of each channel, scaled to [0, 1]; sums are exact, so the
// result is the same on every machine.
class PixelHistogram {
 public:
  explicit PixelHistogram(int channels)
      : counts_(static_cast<size_t>(channels)) {}

  void add(std::span<const uint8_t> pixels) {
    for (size_t p = 0; p < pixels.size(); p += counts_.size()) {
      for (size_t c = 0; c < counts_.size(); ++c) ++counts_[c][pixels[p + c]];
    }
  }

  // [means, deviations of the population, at least 1e-3].
  std::vector<float> statistics() const {
    std::vector<float> values(2 * counts_.size());
    for (size_t c = 0; c < counts_.size(); ++c) {
      const auto [mean, deviation] = moments(counts_[c]);
      values[c] = static_cast<float>(mean / 255);
      values[counts_.size() + c] =
          static_cast<float>(std::max(deviation / 255, 1e-3));
    }
    return values;
  }

 private:
  using Counts = std::array<uint64_t, 256>;

  static std::pair<double, double> moments(const Counts& counts) {
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
    return {mean, std::sqrt(std::max(squares / n - mean * mean, 0.0))};
  }

  std::vector<Counts> counts_;
};

// What is read or written at once, in bytes; more where an image is larger.
constexpr size_t kPieceOfImages = size_t{8} << 20;

// The number of images that are taken at once from the first of these on: where
// they are in memory those that lie side by side.
size_t images_at_once(const ImageSet& set, std::span<const int64_t> indices) {
  const size_t most = std::min(
      indices.size(), std::max<size_t>(1, kPieceOfImages / pixels_of(set)));
  if (set.read) return most;
  size_t count = 1;
  while (count < most && indices[count] == indices[count - 1] + 1) ++count;
  return count;
}

// `histogram` may be null.
void append_images(SectionWriter& out, const ImageSet& set,
                   std::span<const int64_t> indices,
                   PixelHistogram* histogram) {
  std::vector<uint8_t> room;
  while (!indices.empty()) {
    const size_t count = images_at_once(set, indices);
    const size_t bytes = count * pixels_of(set);
    std::span<const uint8_t> pixels;
    if (set.read) {
      room.resize(bytes);
      set.read(indices.first(count), room);
      pixels = room;
    } else {
      const size_t first = size_t(indices[0]) * pixels_of(set);
      pixels = std::span(set.images).subspan(first, bytes);
    }
    if (histogram != nullptr) histogram->add(pixels);
    out.append(std::as_bytes(pixels));
    indices = indices.subspan(count);
  }
}

PreparedSplit append_split(SectionWriter& out, const ImageSet& set,
                           const std::vector<int64_t>& indices,
                           PixelHistogram* histogram = nullptr) {
  PreparedSplit split{};
  split.count = static_cast<int64_t>(indices.size());
  split.images_offset = out.align();
  append_images(out, set, indices, histogram);
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
  PixelHistogram histogram(train.channels);
  out.align();
  header.statistics_offset =
      out.leave(2 * sizeof(float) * static_cast<size_t>(train.channels));
  header.splits = {
      append_split(out, train, plan.train, &histogram),
      append_split(out, plan.validation_set(source), plan.validation),
      append_split(out, plan.test_set(source), plan.test)};
  const std::vector<float> statistics = histogram.statistics();
  out.fill(std::as_bytes(std::span(statistics)));
  for (const ImageSet* set : {&train, &source.validation, &source.test}) {
    if (set->check) set->check();
  }
  out.commit(header);
}

}  // namespace dtune
