#include "dtune/data/npz_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <zip.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

namespace dtune {
namespace {

constexpr zip_uint16_t kFirstDay = 0x21;  // 1980-01-01, the oldest of zip

std::string npy_header(const std::string& type,
                       const std::vector<size_t>& shape) {
  std::string sizes;
  for (const size_t size : shape) sizes += fmt::format("{}, ", size);
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                  type, sizes);
  constexpr size_t kPrefix = 10;
  constexpr size_t kAlignment = 64;  // of the values; the format asks for it
  while ((kPrefix + dict.size() + 1) % kAlignment != 0) dict += ' ';
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

template <typename Value>
void append_little_endian(Value value, std::string& bytes) {
  char raw[sizeof(Value)];
  std::memcpy(raw, &value, sizeof(Value));
  if constexpr (std::endian::native == std::endian::big) {
    std::reverse(std::begin(raw), std::end(raw));
  }
  bytes.append(raw, sizeof(Value));
}

[[noreturn]] void fail(zip_t* zip) {
  throw Error(ErrorKind::internal,
              fmt::format("an .npz archive cannot be made: {}",
                          zip == nullptr ? "no memory" : ::zip_strerror(zip)));
}

struct SourceDeleter {
  void operator()(zip_source_t* source) const { ::zip_source_free(source); }
};
using Source = std::unique_ptr<zip_source_t, SourceDeleter>;

struct ZipDeleter {
  void operator()(zip_t* zip) const { ::zip_discard(zip); }
};
using Zip = std::unique_ptr<zip_t, ZipDeleter>;

void add_member(zip_t* zip, const std::string& name, const std::string& bytes) {
  zip_source_t* source =
      ::zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
  if (source == nullptr) fail(zip);
  const zip_int64_t index =
      ::zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    ::zip_source_free(source);
    fail(zip);
  }
  const auto at = static_cast<zip_uint64_t>(index);
  ::zip_set_file_compression(zip, at, ZIP_CM_DEFLATE, 0);
  ::zip_file_set_dostime(zip, at, 0, kFirstDay, 0);
}

std::string read_all(zip_source_t* source) {
  zip_stat_t info;
  ::zip_stat_init(&info);
  if (::zip_source_stat(source, &info) != 0 || ::zip_source_open(source) != 0) {
    fail(nullptr);
  }
  std::string bytes(info.size, '\0');
  const zip_int64_t got = ::zip_source_read(source, bytes.data(), bytes.size());
  ::zip_source_close(source);
  if (got != static_cast<zip_int64_t>(bytes.size())) fail(nullptr);
  return bytes;
}

}  // namespace

template <typename Value>
void NpzWriter::add_numbers(const std::string& name, const char* type,
                            const std::vector<size_t>& shape,
                            std::span<const Value> values) {
  size_t expected = 1;
  for (const size_t size : shape) expected *= size;
  DTUNE_CHECK(values.size() == expected);
  std::string bytes = npy_header(type, shape);
  bytes.reserve(bytes.size() + values.size_bytes());
  for (const Value value : values) append_little_endian(value, bytes);
  members_.emplace_back(name, std::move(bytes));
}

void NpzWriter::add(const std::string& name, const std::vector<size_t>& shape,
                    std::span<const float> values) {
  add_numbers(name, "<f4", shape, values);
}

void NpzWriter::add(const std::string& name, const std::vector<size_t>& shape,
                    std::span<const double> values) {
  add_numbers(name, "<f8", shape, values);
}

void NpzWriter::add(const std::string& name, const std::vector<size_t>& shape,
                    std::span<const int64_t> values) {
  add_numbers(name, "<i8", shape, values);
}

void NpzWriter::add(const std::string& name,
                    const std::vector<std::string>& words) {
  size_t longest = 1;
  for (const std::string& word : words) {
    longest = std::max(longest, word.size());
  }
  std::string bytes = npy_header(fmt::format("|S{}", longest), {words.size()});
  for (const std::string& word : words) {
    bytes += word;
    bytes.append(longest - word.size(), '\0');
  }
  members_.emplace_back(name, std::move(bytes));
}

void NpzWriter::write(const std::filesystem::path& path) const {
  zip_error_t error;
  ::zip_error_init(&error);
  const Source archive(::zip_source_buffer_create(nullptr, 0, 0, &error));
  if (!archive) fail(nullptr);
  Zip zip(::zip_open_from_source(archive.get(), ZIP_TRUNCATE, &error));
  ::zip_error_fini(&error);
  if (!zip) fail(nullptr);
  ::zip_source_keep(archive.get());  // past the closing of the archive
  for (const auto& [name, bytes] : members_) add_member(zip.get(), name, bytes);
  if (::zip_close(zip.get()) != 0) fail(zip.get());
  static_cast<void>(zip.release());  // closed
  write_file_atomic(path, read_all(archive.get()), false);
}

}  // namespace dtune
