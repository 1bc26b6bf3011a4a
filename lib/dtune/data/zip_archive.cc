#include "dtune/data/zip_archive.h"

#include <utility>

#include <fmt/format.h>
#include <zip.h>

#include "dtune/data/source_error.h"

namespace dtune {
namespace {

std::string text_of(int zip_code) {
  zip_error_t error;
  ::zip_error_init_with_code(&error, zip_code);
  std::string text = ::zip_error_strerror(&error);
  ::zip_error_fini(&error);
  return text;
}

}  // namespace

struct ZipArchive::Archive {
  explicit Archive(zip_t* opened) : zip(opened) {}
  ~Archive() { ::zip_discard(zip); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;
  zip_t* zip;
};

struct ZipArchive::Member::File {
  explicit File(zip_file_t* opened) : file(opened) {}
  ~File() { ::zip_fclose(file); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  zip_file_t* file;
};

ZipArchive::ZipArchive(const std::filesystem::path& path) : where_(path) {
  int code = 0;
  zip_t* zip = ::zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (zip == nullptr) {
    fail_data(path,
              fmt::format("cannot be read as a zip archive: {} (an .npz file "
                          "as numpy.savez writes is expected)",
                          text_of(code)));
  }
  archive_ = std::make_unique<Archive>(zip);
}

ZipArchive::ZipArchive(std::span<const uint8_t> bytes,
                       std::filesystem::path where)
    : where_(std::move(where)) {
  zip_error_t error;
  ::zip_error_init(&error);
  zip_source_t* source =
      ::zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* zip =
      source == nullptr
          ? nullptr
          : ::zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  const std::string text = ::zip_error_strerror(&error);
  ::zip_error_fini(&error);
  if (zip == nullptr) {
    ::zip_source_free(source);
    fail_data(where_, fmt::format("cannot be read as a zip archive: {}", text));
  }
  archive_ = std::make_unique<Archive>(zip);
}

ZipArchive::~ZipArchive() = default;

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  const zip_int64_t count = ::zip_get_num_entries(archive_->zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name =
        ::zip_get_name(archive_->zip, static_cast<zip_uint64_t>(i), 0);
    if (name != nullptr) names.emplace_back(name);
  }
  return names;
}

bool ZipArchive::has(const std::string& name) const {
  return ::zip_name_locate(archive_->zip, name.c_str(), 0) >= 0;
}

ZipArchive::Member ZipArchive::open(const std::string& name) {
  const std::filesystem::path where = where_.string() + ": " + name;
  zip_stat_t info;
  ::zip_stat_init(&info);
  if (::zip_stat(archive_->zip, name.c_str(), 0, &info) != 0) {
    fail_data(where, ::zip_strerror(archive_->zip));
  }
  const bool stored = info.comp_method == ZIP_CM_STORE;
  if (!stored && info.comp_method != ZIP_CM_DEFLATE) {
    fail_data(where, fmt::format("is compressed by method {}; stored and "
                                 "deflated members are read (write it with "
                                 "numpy.savez_compressed)",
                                 info.comp_method));
  }
  const bool possible = stored ? info.size == info.comp_size
                               : info.size / kMaxDeflateRatio <= info.comp_size;
  if (!possible) {
    fail_data(where, fmt::format("claims {}, more than its {} can hold "
                                 "(damaged; fetch the file again)",
                                 format_bytes(info.size),
                                 format_bytes(info.comp_size)));
  }
  zip_file_t* file = ::zip_fopen_index(archive_->zip, info.index, 0);
  if (file == nullptr) fail_data(where, ::zip_strerror(archive_->zip));
  return Member(std::make_unique<Member::File>(file), info.size, where);
}

ZipArchive::Member::Member(std::unique_ptr<File> file, uint64_t size,
                           std::filesystem::path where)
    : file_(std::move(file)), size_(size), where_(std::move(where)) {}
ZipArchive::Member::Member(Member&&) noexcept = default;
ZipArchive::Member::~Member() = default;

void ZipArchive::Member::read(std::span<uint8_t> out) {
  while (!out.empty()) {
    const zip_int64_t n = ::zip_fread(file_->file, out.data(), out.size());
    if (n < 0) {
      fail_data(where_, fmt::format("is damaged: {} (fetch the file again)",
                                    ::zip_file_strerror(file_->file)));
    }
    if (n == 0) {
      fail_data(where_, fmt::format("is truncated: {} bytes are missing (fetch "
                                    "the file again)",
                                    out.size()));
    }
    out = out.subspan(static_cast<size_t>(n));
  }
}

void ZipArchive::Member::finish() {
  uint8_t extra = 0;  // libzip checks the sum when it meets the end
  const zip_int64_t n = ::zip_fread(file_->file, &extra, 1);
  if (n == 0) return;
  fail_data(where_, fmt::format("is damaged: {} (fetch the file again)",
                                n > 0 ? "holds more bytes than it says"
                                      : ::zip_file_strerror(file_->file)));
}

}  // namespace dtune
