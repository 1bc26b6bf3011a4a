#include "dtune/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"

namespace dtune {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "safetensors are little-endian; this writes memory as it is");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference reader
constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<std::string_view, uint64_t> kTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
    {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::data,
              fmt::format("{}: not a valid safetensors file: {} (it is damaged "
                          "or of another format)",
                          name, what));
}

std::optional<uint64_t> type_bytes(std::string_view dtype) {
  for (const auto& [type, bytes] : kTypes) {
    if (type == dtype) return bytes;
  }
  return std::nullopt;
}

// Parses the header and finds keys that occur twice, which JSON libraries
// silently merge.
json parse_json(std::string_view text, const std::string& name) {
  std::set<std::string> seen;
  bool repeated = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1) {
      repeated |= !seen.insert(parsed.get<std::string>()).second;
    }
    return true;
  };
  json header = json::parse(text, watch, /*allow_exceptions=*/false);
  if (header.is_discarded()) fail(name, "its header is not JSON");
  if (!header.is_object()) fail(name, "its header is not an object");
  if (repeated) fail(name, "a name occurs twice in its header");
  return header;
}

TextMap parse_metadata(const json& value, const std::string& name) {
  if (!value.is_object()) fail(name, "its metadata are not an object");
  TextMap metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      fail(name, fmt::format("metadata '{}' are not text", key));
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// The non-negative integer `value`, or a failure.
uint64_t parse_size(const json& value, const std::string& name,
                    const std::string& tensor) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > (1ULL << 62)) {
    fail(name, fmt::format("tensor '{}' has an invalid size", tensor));
  }
  return value.get<uint64_t>();
}

const json& member(const json& value, const char* key, json::value_t type,
                   const std::string& name, const std::string& tensor) {
  const auto found = value.find(key);
  if (found == value.end() || found->type() != type) {
    fail(name, fmt::format("tensor '{}' has no valid '{}'", tensor, key));
  }
  return *found;
}

TensorEntry parse_entry(const json& value, const std::string& name,
                        const std::string& tensor) {
  if (!value.is_object()) {
    fail(name, fmt::format("'{}' is not an object", tensor));
  }
  TensorEntry entry;
  entry.dtype = member(value, "dtype", json::value_t::string, name, tensor)
                    .get<std::string>();
  const std::optional<uint64_t> item = type_bytes(entry.dtype);
  if (!item) {
    fail(name, fmt::format("tensor '{}' is of unknown type '{}'", tensor,
                           entry.dtype));
  }
  const json& shape =
      member(value, "shape", json::value_t::array, name, tensor);
  uint64_t bytes = *item;
  for (const json& size : shape) {
    const uint64_t n = parse_size(size, name, tensor);
    entry.shape.push_back(static_cast<int64_t>(n));
    if (__builtin_mul_overflow(bytes, n, &bytes)) {
      fail(name, fmt::format("tensor '{}' is too large", tensor));
    }
  }
  const json& offsets =
      member(value, "data_offsets", json::value_t::array, name, tensor);
  if (offsets.size() != 2) {
    fail(name, fmt::format("tensor '{}' has no two offsets", tensor));
  }
  entry.begin = parse_size(offsets[0], name, tensor);
  entry.end = parse_size(offsets[1], name, tensor);
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    fail(name, fmt::format("tensor '{}' of shape [{}] takes {} bytes, but its "
                           "offsets are {} and {}",
                           tensor, fmt::join(entry.shape, ", "), bytes,
                           entry.begin, entry.end));
  }
  return entry;
}

// Tensors must fill the data one after the other.
void check_coverage(const SafetensorsHeader& header, uint64_t data_bytes,
                    const std::string& name) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [tensor, entry] : header.tensors) {
    ranges.emplace_back(entry.begin, entry.end);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) fail(name, "its tensors overlap or leave gaps");
    at = end;
  }
  if (at != data_bytes) {
    fail(name, fmt::format("its tensors take {} bytes, but {} follow its "
                           "header",
                           at, data_bytes));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes,
                                    const std::string& name) {
  if (bytes.size() < kLengthBytes) fail(name, "it is shorter than 8 bytes");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    fail(name, fmt::format("its header claims {} bytes of a file of {}", length,
                           bytes.size()));
  }
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + length;
  const json parsed = parse_json(
      {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length},
      name);
  for (const auto& [key, value] : parsed.items()) {
    if (key == kMetadata) {
      header.metadata = parse_metadata(value, name);
    } else {
      header.tensors[key] = parse_entry(value, name, key);
    }
  }
  check_coverage(header, bytes.size() - header.data_begin, name);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : name_(path.string()),
      file_(path),
      bytes_(file_->bytes()),
      header_(parse_safetensors(bytes_, name_)) {}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes,
                                 std::string name)
    : name_(std::move(name)),
      bytes_(bytes),
      header_(parse_safetensors(bytes_, name_)) {}

const std::string& SafetensorsFile::text(const std::string& key) const {
  const auto found = header_.metadata.find(key);
  if (found == header_.metadata.end()) {
    throw Error(ErrorKind::data,
                fmt::format("{}: has no '{}' in its metadata (was it written "
                            "by dtune?)",
                            name_, key));
  }
  return found->second;
}

const TensorEntry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) {
    throw Error(ErrorKind::data,
                fmt::format("{}: holds no tensor '{}' (it is of another "
                            "architecture)",
                            name_, name));
  }
  return found->second;
}

template <typename T>
std::span<const T> SafetensorsFile::values(
    const std::string& name, const char* dtype,
    std::span<const int64_t> shape) const {
  const TensorEntry& found = entry(name);
  if (found.dtype != dtype || !std::ranges::equal(found.shape, shape)) {
    throw Error(
        ErrorKind::data,
        fmt::format("{}: tensor '{}' is {} [{}], but {} [{}] is needed (it is "
                    "of another architecture)",
                    name_, name, found.dtype, fmt::join(found.shape, ", "),
                    dtype, fmt::join(shape, ", ")));
  }
  const std::byte* begin = data().data() + found.begin;
  if (reinterpret_cast<uintptr_t>(begin) % alignof(T) != 0) {
    throw Error(ErrorKind::data,
                fmt::format("{}: tensor '{}' is not aligned (write the file "
                            "again with a newer safetensors)",
                            name_, name));
  }
  return {reinterpret_cast<const T*>(begin),
          (found.end - found.begin) / sizeof(T)};
}

std::span<const float> SafetensorsFile::floats(
    const std::string& name, std::span<const int64_t> shape) const {
  return values<float>(name, "F32", shape);
}

std::span<const uint16_t> SafetensorsFile::halves(
    const std::string& name, std::span<const int64_t> shape) const {
  return values<uint16_t>(name, "F16", shape);
}

std::span<const double> SafetensorsFile::doubles(
    const std::string& name, std::span<const int64_t> shape) const {
  return values<double>(name, "F64", shape);
}

std::vector<int64_t> SafetensorsFile::shape(const std::string& name,
                                            size_t dimensions) const {
  const TensorEntry& found = entry(name);
  if (found.shape.size() != dimensions) {
    throw Error(ErrorKind::data,
                fmt::format("{}: tensor '{}' has {} dimensions, but {} are "
                            "needed (it is of another architecture)",
                            name_, name, found.shape.size(), dimensions));
  }
  return found.shape;
}

namespace {

std::vector<RawTensor> raw(std::span<const FloatTensor> tensors) {
  std::vector<RawTensor> result;
  for (const FloatTensor& tensor : tensors) {
    result.push_back(
        {tensor.name, "F32", tensor.shape, std::as_bytes(tensor.values)});
  }
  return result;
}

// Its 8 length bytes included; padded to a multiple of 8 bytes.
std::string raw_safetensors_header(std::span<const RawTensor> tensors,
                                   const TextMap& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  uint64_t at = 0;
  for (const RawTensor& tensor : tensors) {
    uint64_t bytes = type_bytes(tensor.dtype).value_or(0);
    for (const int64_t size : tensor.shape) {
      bytes *= static_cast<uint64_t>(size);
    }
    DTUNE_CHECK(bytes == tensor.bytes.size());
    DTUNE_CHECK(!header.contains(tensor.name));
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  // Names of classes and files may be of any encoding.
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

}  // namespace

void write_raw_safetensors(const std::filesystem::path& path,
                           std::span<const RawTensor> tensors,
                           const TextMap& metadata, bool durable) {
  const std::string header = raw_safetensors_header(tensors, metadata);
  std::vector<std::string_view> pieces = {header};
  for (const RawTensor& tensor : tensors) {
    pieces.emplace_back(reinterpret_cast<const char*>(tensor.bytes.data()),
                        tensor.bytes.size());
  }
  write_file_atomic(path, std::span<const std::string_view>(pieces), durable);
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const FloatTensor> tensors,
                       const TextMap& metadata, bool durable) {
  write_raw_safetensors(path, raw(tensors), metadata, durable);
}

}  // namespace dtune
