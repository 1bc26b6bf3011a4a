#include "app/seen_data.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/random.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct NamedSplit {
  Split split;
  const char* name;
};

constexpr std::array<NamedSplit, 3> kSplits = {
    {{Split::train, "training"},
     {Split::validation, "validation"},
     {Split::test, "test"}}};

constexpr size_t kMostImages = 256;  // looked at, of each split
constexpr uint64_t kMostBytes = 4096;

template <typename T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// Of all labels, and of images evenly spread over the split: it may be larger
// than the memory.
uint64_t hash_split(const PreparedData& data, Split split) {
  const auto images = data.images(split);
  const auto count = static_cast<size_t>(data.count(split));
  uint64_t hash = hash_text(bytes_of(data.labels(split)));
  if (count == 0) return hash;
  const size_t size = images.size() / count;
  const size_t looks = std::min(count, kMostImages);
  for (size_t i = 0; i < looks; ++i) {
    const auto image = images.subspan(i * count / looks * size, size);
    hash = mix_seed({hash, hash_text(bytes_of(image))});
  }
  return hash;
}

struct SeenSplit {
  int64_t count = 0;
  uint64_t hash = 0;
};

SeenSplit look_at(const PreparedData& data, Split split) {
  return {data.count(split), hash_split(data, split)};
}

// "training 115 0123456789abcdef", a line for each split.
std::string describe(const PreparedData& data) {
  std::string text;
  for (const auto& [split, name] : kSplits) {
    const SeenSplit seen = look_at(data, split);
    text += fmt::format("{} {} {:016x}\n", name, seen.count, seen.hash);
  }
  return text;
}

std::optional<SeenSplit> read_split(const std::string& text,
                                    const std::string& name) {
  std::istringstream lines(text);
  std::string word;
  SeenSplit seen;
  while (lines >> word >> std::dec >> seen.count >> std::hex >> seen.hash) {
    if (word == name) return seen;
  }
  return std::nullopt;
}

std::string read_or_nothing(const fs::path& file) {
  try {
    return read_file(file, kMostBytes);
  } catch (const Error&) {
    return "";
  }
}

std::string compare(const std::string& text, const PreparedData& data,
                    const NamedSplit& of) {
  const auto then = read_split(text, of.name);
  if (!then) return "";
  const SeenSplit now = look_at(data, of.split);
  if (now.count != then->count) {
    return fmt::format("there are {} {} images, there were {}", now.count,
                       of.name, then->count);
  }
  if (now.hash == then->hash) return "";
  return fmt::format("the {} images or their labels are others", of.name);
}

}  // namespace

std::string compare_seen_data(const fs::path& file, const PreparedData& data) {
  std::error_code error;
  if (!fs::exists(file, error)) {
    try {
      write_file_atomic(file, describe(data), false);
    } catch (const Error&) {  // a full disk, for one
    }
    return "";
  }
  const std::string text = read_or_nothing(file);
  std::vector<std::string> changes;
  for (const NamedSplit& of : kSplits) {
    std::string change = compare(text, data, of);
    if (!change.empty()) changes.push_back(std::move(change));
  }
  return fmt::format("{}", fmt::join(changes, "; "));
}

std::string compare_seen_data(const fs::path& file, const PreparedData& data,
                              Split split) {
  const auto of = std::ranges::find(kSplits, split, &NamedSplit::split);
  return compare(read_or_nothing(file), data, *of);
}

}  // namespace dtune
