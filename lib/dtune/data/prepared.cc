#include "dtune/data/prepared.h"

#include "dtune/data/prepared_format.h"

namespace dtune {

PreparedData::PreparedData(const std::filesystem::path& path) : file_(path) {
  check_prepared(file_.bytes(), path);
  class_names_ = prepared_names(file_.bytes(), path);
  notes_ = prepared_notes(file_.bytes(), path);
}

const PreparedHeader& PreparedData::header() const {
  // The mapping starts at a page, and the file was made by this byte order.
  return *reinterpret_cast<const PreparedHeader*>(file_.bytes().data());
}

Shape PreparedData::image_shape() const {
  return {.channels = header().channels,
          .height = header().height,
          .width = header().width};
}

int PreparedData::classes() const { return header().classes; }

int64_t PreparedData::count(Split split) const {
  return header().splits[static_cast<size_t>(split)].count;
}

std::span<const uint8_t> PreparedData::images(Split split) const {
  const PreparedSplit& part = header().splits[static_cast<size_t>(split)];
  const auto* start = file_.bytes().data() + part.images_offset;
  return {reinterpret_cast<const uint8_t*>(start),
          static_cast<size_t>(part.count * image_shape().elements())};
}

std::span<const int32_t> PreparedData::labels(Split split) const {
  const PreparedSplit& part = header().splits[static_cast<size_t>(split)];
  const auto* start = file_.bytes().data() + part.labels_offset;
  return {reinterpret_cast<const int32_t*>(start),
          static_cast<size_t>(part.count)};
}

std::span<const float> PreparedData::mean() const {
  const auto* start = file_.bytes().data() + header().statistics_offset;
  return {reinterpret_cast<const float*>(start),
          static_cast<size_t>(header().channels)};
}

std::span<const float> PreparedData::deviation() const {
  const auto channels = static_cast<size_t>(header().channels);
  return {mean().data() + channels, channels};
}

}  // namespace dtune
