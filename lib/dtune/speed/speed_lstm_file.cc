// The file of the speed predictor's weights: safetensors,
//   gates [inputs + hidden + 1, 4 hidden]   F32: W by columns; i, f, o, g
//   head [hidden + 1, candidates + 1]       F32: V by columns
// and metadata format, version (changes with what SpeedHistory tells),
// provenance.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/speed/speed_lstm.h"

namespace dtune {
namespace {

constexpr const char* kFormat = "dtune speed predictor";
constexpr const char* kVersion = "1";

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Error(
      ErrorKind::data,
      fmt::format("{}: {} (make it again: dtune speeds train)", name, what));
}

void check_head(const SafetensorsFile& file) {
  const TextMap& head = file.metadata();
  if (!head.contains("format") || head.at("format") != kFormat) {
    fail(file.name(), "is not a speed predictor of dtune");
  }
  if (file.text("version") != kVersion) {
    fail(file.name(), fmt::format("is of version '{}', but this dtune reads {}",
                                  file.text("version"), kVersion));
  }
}

void copy_floats(const SafetensorsFile& file, const std::string& name,
                 std::span<const int64_t> shape, std::span<double> into) {
  const std::span<const float> values = file.floats(name, shape);
  for (size_t i = 0; i < into.size(); ++i) {
    if (!std::isfinite(values[i])) {
      fail(file.name(),
           fmt::format("'{}' holds a number that is not finite", name));
    }
    into[i] = double{values[i]};
  }
}

}  // namespace

SpeedLstm SpeedLstm::read(const SafetensorsFile& file) {
  check_head(file);
  const int64_t gates = file.shape("gates", 2)[1];
  if (gates < 4 || gates > 1024 || gates % 4 != 0) {
    fail(file.name(), fmt::format("has {} gates", gates));
  }
  SpeedLstm network(static_cast<int>(gates / 4), 0);
  const int64_t shape[] = {static_cast<int64_t>(network.columns()), gates};
  const int64_t head_shape[] = {gates / 4 + 1, int64_t{kSpeedOutputs}};
  const std::span<double> all = network.parameters();
  const size_t split = network.gate_count();
  copy_floats(file, "gates", shape, all.first(split));
  copy_floats(file, "head", head_shape, all.subspan(split));
  return network;
}

SpeedLstm SpeedLstm::load(const std::filesystem::path& path) {
  return read(SafetensorsFile(path));
}

SpeedLstm SpeedLstm::from_bytes(std::span<const std::byte> bytes,
                                const std::string& name) {
  return read(SafetensorsFile(bytes, name));
}

void SpeedLstm::save(const std::filesystem::path& path,
                     const std::string& provenance) const {
  std::vector<float> values;
  for (const double value : parameters_) {
    values.push_back(static_cast<float>(value));
  }
  const std::span<const float> all(values);
  const auto gates = static_cast<int64_t>(4 * hidden_);
  const FloatTensor tensors[] = {{"gates",
                                  {static_cast<int64_t>(columns()), gates},
                                  all.first(gate_count())},
                                 {"head",
                                  {gates / 4 + 1, int64_t{kSpeedOutputs}},
                                  all.subspan(gate_count())}};
  const TextMap metadata = {
      {"format", kFormat}, {"version", kVersion}, {"provenance", provenance}};
  write_safetensors(path, tensors, metadata, false);
}

}  // namespace dtune
