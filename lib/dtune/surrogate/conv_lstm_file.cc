#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/conv_lstm_parts.h"

namespace dtune {
namespace {

constexpr const char* kFormatKey = "conv_lstm.format";
// Changes whenever features, grid or the meaning of a tensor do.
constexpr const char* kFormatNow = "dtune conv_lstm 1";
constexpr const char* kHidden = "conv_lstm.hidden";
constexpr const char* kHead = "conv_lstm.head";

[[noreturn]] void fail_network(const std::string& name,
                               const std::string& what) {
  throw Error(ErrorKind::data, fmt::format("{}: {}", name, what));
}

const std::string& text(const TextMap& metadata, const char* key,
                        const std::string& name) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    fail_network(name,
                 fmt::format("has no '{}' in its metadata (it holds no weights "
                             "of dtune's ConvLSTM)",
                             key));
  }
  return found->second;
}

int number(const TextMap& metadata, const char* key, const std::string& name) {
  const std::string& digits = text(metadata, key, name);
  const auto value = parse_number<int>(digits);
  if (!value) {
    fail_network(name,
                 fmt::format("its '{}' is '{}', not a number", key, digits));
  }
  return *value;
}

ConvLstmShape read_shape(const TextMap& metadata, const std::string& name) {
  const std::string& format = text(metadata, kFormatKey, name);
  if (format != kFormatNow) {
    fail_network(name,
                 fmt::format("its format is '{}', but '{}' is needed (train it "
                             "again with this version)",
                             format, kFormatNow));
  }
  return {.hidden = number(metadata, kHidden, name),
          .head = number(metadata, kHead, name)};
}

void check_tensors(const SafetensorsHeader& header,
                   const std::vector<TensorSpec>& specs,
                   const std::string& name) {
  for (const TensorSpec& spec : specs) {
    const auto found = header.tensors.find(spec.name);
    if (found == header.tensors.end()) {
      fail_network(name, fmt::format("holds no tensor '{}'", spec.name));
    }
    const TensorEntry& entry = found->second;
    if (entry.dtype != "F32" || entry.shape != spec.shape) {
      fail_network(
          name,
          fmt::format("tensor '{}' is {} [{}], but F32 [{}] is needed",
                      spec.name, entry.dtype, fmt::join(entry.shape, ", "),
                      fmt::join(spec.shape, ", ")));
    }
  }
  if (header.tensors.size() != specs.size()) {
    fail_network(name, fmt::format("holds {} tensors, but {} are needed",
                                   header.tensors.size(), specs.size()));
  }
}

}  // namespace

ConvLstm ConvLstm::load(const std::filesystem::path& path) {
  const MappedFile file(path);
  return from_bytes(file.bytes(), path.string());
}

ConvLstm ConvLstm::from_bytes(std::span<const std::byte> bytes,
                              const std::string& name) {
  const SafetensorsHeader header = parse_safetensors(bytes, name);
  const ConvLstmShape shape = read_shape(header.metadata, name);
  try {
    check_shape(shape);
  } catch (const Error& error) {
    fail_network(name, error.what());
  }
  const std::vector<TensorSpec> specs = tensor_specs(shape);
  check_tensors(header, specs, name);
  ConvLstm result(shape);
  for (const TensorSpec& spec : specs) {
    const TensorEntry& entry = header.tensors.at(spec.name);
    float* to = &result.parameters_[spec.offset];
    std::memcpy(to, bytes.data() + header.data_begin + entry.begin,
                spec.size * sizeof(float));
    for (size_t i = 0; i < spec.size; ++i) {
      if (!std::isfinite(to[i])) {
        fail_network(
            name, fmt::format("tensor '{}' holds numbers that are not finite "
                              "(its training diverged, or it is damaged)",
                              spec.name));
      }
    }
  }
  result.metadata_ = header.metadata;
  return result;
}

void ConvLstm::save(const std::filesystem::path& path,
                    const TextMap& metadata) const {
  TextMap all = metadata;
  all[kFormatKey] = kFormatNow;
  all[kHidden] = std::to_string(shape_.hidden);
  all[kHead] = std::to_string(shape_.head);
  std::vector<FloatTensor> tensors;
  for (const TensorSpec& spec : tensor_specs(shape_)) {
    tensors.push_back(
        {spec.name, spec.shape, parameters().subspan(spec.offset, spec.size)});
  }
  write_safetensors(path, tensors, all, /*durable=*/true);
}

}  // namespace dtune
