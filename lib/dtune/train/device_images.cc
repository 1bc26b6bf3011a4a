#include "dtune/train/device_images.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "dtune/base/error.h"
#include "dtune/nn/transfer.h"
#include "dtune/train/device.h"

namespace dtune {
namespace {

constexpr int64_t kLargestShare = 4;  // one over the part of the memory

at::Tensor pixels_tensor(std::span<const uint8_t> pixels, const Shape& shape) {
  const auto count = static_cast<int64_t>(pixels.size()) / shape.elements();
  return at::from_blob(const_cast<uint8_t*>(pixels.data()),
                       {count, shape.height, shape.width, shape.channels},
                       at::kByte);
}

// The splits train and validation, one after the other.
at::Tensor upload(const PreparedData& data, const at::Device& device) {
  const Shape shape = data.image_shape();
  const int64_t train = data.count(Split::train);
  const int64_t validation = data.count(Split::validation);
  at::Tensor pixels =
      at::empty({train + validation, shape.height, shape.width, shape.channels},
                at::TensorOptions(at::kByte).device(device));
  pixels.narrow(0, 0, train)
      .copy_(pixels_tensor(data.images(Split::train), shape));
  pixels.narrow(0, train, validation)
      .copy_(pixels_tensor(data.images(Split::validation), shape));
  return pixels;
}

// The copy that is there, or a new one. Those that have it keep the data
// mapped, so that its address is not another's.
std::shared_ptr<const at::Tensor> resident_pixels(const PreparedData& data,
                                                  const at::Device& device) {
  using Key = std::pair<const PreparedData*, std::string>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<const at::Tensor>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known,
                [](const auto& entry) { return entry.second.expired(); });
  const Key key{&data, device.str()};
  if (const auto found = known.find(key); found != known.end()) {
    if (auto pixels = found->second.lock()) return pixels;
  }
  auto pixels = std::make_shared<const at::Tensor>(upload(data, device));
  known[key] = pixels;
  return pixels;
}

bool fits(const PreparedData& data, const at::Device& device) {
  const int64_t samples =
      data.count(Split::train) + data.count(Split::validation);
  const auto bytes = static_cast<uint64_t>(
      samples * data.image_shape().elements() * kLargestShare);
  return bytes <= memory_limit(device);
}

bool of_test(const BatchSource& source) {
  return std::ranges::count(source.splits(), Split::test) > 0;
}

// Numbers of images, [numbers, images], moved to the device at once. Doubles
// hold every int.
template <typename Image, size_t kNumbers>
at::Tensor table(
    std::span<const Image> images, const at::Device& device,
    const std::array<double (*)(const Image&), kNumbers>& numbers) {
  const auto count = static_cast<int64_t>(images.size());
  const at::Tensor host =
      host_tensor({int64_t{kNumbers}, count}, at::kDouble, device);
  auto* out = host.data_ptr<double>();
  for (const auto& number : numbers) {
    for (const Image& image : images) *out++ = number(image);
  }
  return send(host, device);
}

at::Tensor counted(int64_t size, const at::Device& device) {
  return at::arange(size, at::TensorOptions(at::kLong).device(device));
}

// Rows of the table of what is done to images.
enum Number : size_t {
  at_place,  // in the pool of pixels
  at_flip,
  at_dy,
  at_dx,
  at_mirrored_dy,
  at_mirrored_dx,
  at_top,
  at_bottom,
  at_left,
  at_right,
  at_brightness,
  at_contrast,
  at_saturation,
  number_count
};

// Where the rows (or columns) of images come from, [images, size].
struct Places {
  at::Tensor from;
  at::Tensor inside;  // else from nowhere
};

// shift, mirrored: [images, 1].
Places places(int64_t size, const at::Tensor& shift,
              const at::Tensor& mirrored) {
  const at::Tensor at = counted(size, shift.device()) - shift;
  const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
  const at::Tensor turned = (at - mirrored).remainder(period);
  return {at::minimum(turned, at::rsub(turned, period)),
          at.ge(0).logical_and_(at.lt(size))};
}

// The images' pixels in the pool, moved; black where nothing comes from.
at::Tensor moved(const at::Tensor& pool, const at::Tensor& by,
                 const Shape& shape) {
  const Places y = places(shape.height, by[at_dy], by[at_mirrored_dy]);
  const Places x = places(shape.width, by[at_dx], by[at_mirrored_dx]);
  const at::Tensor column =
      at::where(by[at_flip].ne(0), at::rsub(x.from, shape.width - 1), x.from);
  const at::Tensor row = (by[at_place] * shape.height).add(y.from);
  const at::Tensor place =
      (row.unsqueeze(2) * shape.width).add(column.unsqueeze(1));
  const at::Tensor inside =
      y.inside.unsqueeze(2).logical_and(x.inside.unsqueeze(1)).unsqueeze(3);
  return pool.view({-1, shape.channels})
      .index_select(0, place.view({-1}))
      .view({place.size(0), shape.height, shape.width, shape.channels})
      .mul_(inside);
}

// [images, H, W, 1]: what is in rectangles. edges: [4, images, 1], top, bottom,
// left and right.
at::Tensor rectangles(const Shape& shape, const at::Tensor& edges) {
  const at::Tensor y = counted(shape.height, edges.device());
  const at::Tensor x = counted(shape.width, edges.device());
  const at::Tensor high = y.ge(edges[0]).logical_and_(y.lt(edges[1]));
  const at::Tensor wide = x.ge(edges[2]).logical_and_(x.lt(edges[3]));
  return high.unsqueeze(2).logical_and(wide.unsqueeze(1)).unsqueeze(3);
}

at::Tensor rounded(const at::Tensor& values) {
  return values.clamp_(0, 255).add_(0.5).floor_();
}

// pixels: [images, H, W, C]; by: [images, 1] each. As Augmenter::jitter.
at::Tensor jittered(const at::Tensor& pixels, const at::Tensor& brightness,
                    const at::Tensor& contrast, const at::Tensor& saturation) {
  const at::Tensor flat = pixels.flatten(1);
  const at::Tensor mean = flat.sum({1}, /*keepdim=*/true, at::kLong)
                              .to(at::kDouble)
                              .mul_(brightness)
                              .div_(flat.size(1));
  at::Tensor values = flat.to(at::kDouble).mul_(brightness);
  values = rounded(values.sub_(mean).mul_(contrast).add_(mean));
  if (pixels.size(3) != 3) return values.to(at::kByte).view(pixels.sizes());
  values = values.to(at::kFloat).view(pixels.sizes());
  const at::Tensor grey = (values.select(3, 0) * 0.299F)
                              .add_(values.select(3, 1) * 0.587F)
                              .add_(values.select(3, 2) * 0.114F)
                              .unsqueeze(3);
  const at::Tensor share = saturation.to(at::kFloat).view({-1, 1, 1, 1});
  return rounded((values - grey).mul_(share).add_(grey)).to(at::kByte);
}

bool is_jittered(const Change& change) {
  return change.brightness != 1 || change.contrast != 1 ||
         change.saturation != 1;
}

Mix mix_in(const PlannedImage& image) { return image.mix.value_or(Mix{}); }

// Of the image's own pixels where the other's do not replace them.
double share_outside(const Mix& mix) {
  return mix.height > 0 || mix.width > 0 ? 1.0 : double{mix.share};
}

}  // namespace

struct DeviceImages::Row {
  uint32_t sample;
  int64_t place;  // in the pool of pixels
  Change change;
};

at::Tensor DeviceImages::numbers_of(const std::vector<Row>& rows) const {
  return table<Row, number_count>(
      rows, device_,
      {[](const Row& row) { return double(row.place); },
       [](const Row& row) { return double(row.change.flip); },
       [](const Row& row) { return double(row.change.dy); },
       [](const Row& row) { return double(row.change.dx); },
       [](const Row& row) { return double(row.change.mirrored_dy); },
       [](const Row& row) { return double(row.change.mirrored_dx); },
       [](const Row& row) { return double(row.change.top); },
       [](const Row& row) { return double(row.change.bottom); },
       [](const Row& row) { return double(row.change.left); },
       [](const Row& row) { return double(row.change.right); },
       [](const Row& row) { return row.change.brightness; },
       [](const Row& row) { return row.change.contrast; },
       [](const Row& row) { return row.change.saturation; }});
}

DeviceImages::DeviceImages(BatchSource source, const at::Device& device,
                           Pixels pixels)
    : source_(std::move(source)), device_(device) {
  const PreparedData& data = source_.data();
  const bool here = pixels == Pixels::resident ||
                    (pixels == Pixels::by_size && fits(data, device));
  if (here && !of_test(source_)) {
    try {
      resident_ = resident_pixels(data, device);
    } catch (const c10::Error&) {
      // Others have taken the memory: batch by batch then.
    }
    if (source_.splits().front() == Split::validation) {
      first_ = data.count(Split::train);
    }
  }
  std::vector<float> scale;
  std::vector<float> offset;
  const Normalization& by = source_.normalization();
  for (size_t c = 0; c < by.mean.size(); ++c) {
    scale.push_back(1 / (255 * by.deviation[c]));
    offset.push_back(-by.mean[c] / by.deviation[c]);
  }
  scale_ = per_channel(scale);
  offset_ = per_channel(offset);
  const std::vector<uint8_t>& mean = source_.mean_pixel();
  mean_ = per_channel({mean.begin(), mean.end()}).to(at::kByte);
}

at::Tensor DeviceImages::per_channel(const std::vector<float>& values) const {
  return at::tensor(values).to(device_);
}

bool DeviceImages::shares_pixels(const DeviceImages& other) const {
  return resident() && resident_ == other.resident_;
}

// The images' own samples, then those that they are mixed with (itself, where
// it is mixed with none and others are).
std::vector<DeviceImages::Row> DeviceImages::rows_of(
    std::span<const PlannedImage> plan) const {
  std::vector<Row> rows;
  rows.reserve(plan.size());
  for (const PlannedImage& image : plan) {
    rows.push_back({image.sample, 0, image.change});
  }
  const bool mixes = std::ranges::any_of(
      plan, [](const PlannedImage& image) { return image.mix.has_value(); });
  for (size_t i = 0; mixes && i < plan.size(); ++i) {
    const PlannedImage& image = plan[i];
    rows.push_back({image.mix ? image.mix->other : image.sample, 0,
                    image.mix ? image.other : image.change});
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].place = resident() ? first_ + source_.place_of(rows[i].sample)
                               : static_cast<int64_t>(i);
  }
  return rows;
}

std::vector<uint32_t> DeviceImages::samples_of(const std::vector<Row>& rows) {
  std::vector<uint32_t> samples;
  samples.reserve(rows.size());
  for (const Row& row : rows) samples.push_back(row.sample);
  return samples;
}

at::Tensor DeviceImages::stage(const std::vector<uint32_t>& samples) const {
  const Shape& shape = source_.image_shape();
  const at::Tensor host =
      host_tensor({static_cast<int64_t>(samples.size()), shape.height,
                   shape.width, shape.channels},
                  at::kByte, device_);
  auto* out = host.data_ptr<uint8_t>();
  for (const uint32_t sample : samples) {
    out = std::ranges::copy(source_.pixels(sample), out).out;
  }
  return send(host, device_);
}

at::Tensor DeviceImages::take_staged(const std::vector<Row>& rows) {
  const std::vector<uint32_t> samples = samples_of(rows);
  std::optional<Staged> staged = std::exchange(staged_, std::nullopt);
  if (!staged || staged->samples != samples) return stage(samples);
  if (staged->copied) {
    const c10::Stream now =
        c10::impl::getDeviceGuardImpl(device_.type())->getStream(device_);
    staged->copied->block(now);
    staged->pixels.record_stream(now);
  }
  return staged->pixels;
}

void DeviceImages::prefetch(std::span<const PlannedImage> plan) {
  if (resident()) return;
  Staged next{.samples = samples_of(rows_of(plan))};
  if (device_.is_cpu()) {
    next.pixels = stage(next.samples);
  } else {
    // One stream: the allocator keeps the freed memory of each for itself.
    if (!beside_) beside_ = own_stream(device_);
    const c10::StreamGuard guard(*beside_);
    next.pixels = stage(next.samples);
    next.copied.emplace(device_.type());
    next.copied->record(*beside_);
  }
  staged_ = std::move(next);
}

// The rows' pixels after their changes, [rows, H, W, C]; 8 bits.
at::Tensor DeviceImages::changed(const std::vector<Row>& rows) {
  const Shape& shape = source_.image_shape();
  at::Tensor pool = resident() ? *resident_ : take_staged(rows);
  const auto any = [&](auto&& is) {
    return std::ranges::any_of(rows,
                               [&](const Row& row) { return is(row.change); });
  };
  const bool changes = any([](const Change& by) { return by != Change{}; });
  if (!changes && !resident()) return pool;
  const at::Tensor by = numbers_of(rows).unsqueeze(2);
  const at::Tensor whole = by.to(at::kLong);
  if (!changes) return pool.index_select(0, whole[at_place].squeeze(1));
  at::Tensor pixels = moved(pool, whole, shape);
  if (any(is_jittered)) {
    pixels =
        jittered(pixels, by[at_brightness], by[at_contrast], by[at_saturation]);
  }
  if (any([](const Change& one) { return one.bottom > one.top; })) {
    const at::Tensor square = rectangles(shape, whole.narrow(0, at_top, 4));
    pixels = at::where(square, mean_, pixels);
  }
  return pixels;
}

// images: the plan's own, then the others; [2 n, H, W, C].
at::Tensor DeviceImages::mixed(std::span<const PlannedImage> plan,
                               const at::Tensor& images) const {
  using Image = PlannedImage;
  const at::Tensor by =
      table<Image, 5>(plan, device_,
                      {[](const Image& i) { return double(mix_in(i).top); },
                       [](const Image& i) {
                         return double(mix_in(i).top + mix_in(i).height);
                       },
                       [](const Image& i) { return double(mix_in(i).left); },
                       [](const Image& i) {
                         return double(mix_in(i).left + mix_in(i).width);
                       },
                       [](const Image& i) { return share_outside(mix_in(i)); }})
          .unsqueeze(2);
  const at::Tensor cut =
      rectangles(source_.image_shape(), by.narrow(0, 0, 4).to(at::kLong));
  const at::Tensor share = by[4].to(at::kFloat).view({-1, 1, 1, 1});
  const at::Tensor own = at::where(cut, at::zeros_like(share), share);
  const std::vector<at::Tensor> halves = images.chunk(2);
  return (halves[0] * own).add_(at::rsub(own, 1) * halves[1]);
}

at::Tensor DeviceImages::make(std::span<const PlannedImage> plan) {
  const std::vector<Row> rows = rows_of(plan);
  at::Tensor images = changed(rows).to(at::kFloat).mul_(scale_).add_(offset_);
  if (rows.size() > plan.size()) images = mixed(plan, images);
  return images.permute({0, 3, 1, 2});
}

}  // namespace dtune
