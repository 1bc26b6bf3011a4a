// dtune show-batch: a picture of what a network is trained on.

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "app/command.h"
#include "app/contact_sheet.h"
#include "app/overrides.h"
#include "app/study_check.h"
#include "app/study_files.h"
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/random.h"
#include "dtune/config/recipe_file.h"
#include "dtune/data/prepared.h"
#include "dtune/train/batch_source.h"

namespace dtune {
namespace {

constexpr uint64_t kUsualImages = 36;

struct ShowBatchOptions {
  std::string recipe;
  std::string output = "batch.png";
  std::vector<std::string> set;
  std::optional<uint64_t> batch;
  std::optional<uint64_t> images;
};

// What is tuned has the middle of its range.
Recipe recipe_in_the_middle(const RecipeFile& file) {
  const SearchSpace& space = file.recipe().space;
  const std::vector<double> middle(space.dimensions(), 0.5);
  return file.with_point(space.decode(middle)).recipe;
}

// Pixels as a network gets them, as 0 to 255 again. Of two channels, or four,
// the first one is shown.
Image picture_of(std::span<const float> pixels, const Shape& shape) {
  Image image{.height = shape.height,
              .width = shape.width,
              .channels = shape.channels == 3 ? 3 : 1,
              .pixels = {}};
  for (size_t at = 0; at < pixels.size();
       at += static_cast<size_t>(shape.channels)) {
    for (int c = 0; c < image.channels; ++c) {
      const float level = 255 * pixels[at + static_cast<size_t>(c)];
      image.pixels.push_back(
          static_cast<uint8_t>(std::clamp(level, 0.0F, 255.0F) + 0.5F));
    }
  }
  return image;
}

// "cat 70%", "dog 30%"; without a mix the one name.
std::vector<std::string> caption_of(const PreparedData& data, int32_t label,
                                    const LabelMix& mix, size_t sample) {
  const auto name = [&](int32_t number) {
    return data.class_names()[static_cast<size_t>(number)];
  };
  if (mix.others.empty()) return {name(label)};
  const double share = 100 * double{mix.shares[sample]};
  return {fmt::format("{:.0f}% {}", share, name(label)),
          fmt::format("{:.0f}% {}", 100 - share, name(mix.others[sample]))};
}

std::vector<CaptionedImage> read_batch(
    const std::shared_ptr<const PreparedData>& data, const Recipe& recipe,
    const ShowBatchOptions& options) {
  const BatchSource source(data, {Split::train},
                           normalization_of(*data, false));
  const Shape shape = source.image_shape();
  const auto purpose = [&](const char* name) {
    return mix_seed({recipe.seed, hash_text(name)});
  };
  BatchOrder order(source.count(), recipe.train.batch_size, purpose("order"));
  BatchRange batch = order.at(0);
  for (uint64_t i = 0; i < options.batch.value_or(0); ++i) {
    batch = order.at(batch.epoch * source.count() + batch.first + batch.size);
  }
  std::span<const uint32_t> samples = order.samples(batch);
  samples = samples.first(
      std::min<size_t>(samples.size(), options.images.value_or(kUsualImages)));
  const AugmentKey key{recipe.data.augment, purpose("augment"), batch.epoch};
  const auto elements = static_cast<size_t>(shape.elements());
  std::vector<float> pixels(samples.size() * elements);
  std::vector<int32_t> labels(samples.size());
  source.gather(samples, key, pixels, labels);
  LabelMix mix;
  source.append_mix(samples, key, mix);
  std::vector<CaptionedImage> images;
  for (size_t i = 0; i < samples.size(); ++i) {
    images.push_back(
        {picture_of(std::span(pixels).subspan(i * elements, elements), shape),
         caption_of(*data, labels[i], mix, i)});
  }
  return images;
}

int show_batch(const Console& console, const ShowBatchOptions& options) {
  const RecipeFile file = RecipeFile::load(find_recipe(options.recipe),
                                           parse_overrides(options.set));
  if (file.recipe().command) {
    throw Error(ErrorKind::config,
                "show-batch: the recipe tunes a program, of whose data nothing "
                "is known (name a recipe with data)");
  }
  if (options.images == uint64_t{0}) {
    throw Error(ErrorKind::config, "--images: 0 (at least 1)");
  }
  const Recipe recipe = recipe_in_the_middle(file);
  const auto data = std::make_shared<const PreparedData>(
      prepare_recipe_data(console, recipe));
  const std::vector<CaptionedImage> images = read_batch(data, recipe, options);
  const std::vector<uint8_t> png = encode_png(contact_sheet(images));
  if (!write_output(options.output,
                    {reinterpret_cast<const char*>(png.data()), png.size()})) {
    return kExitOk;
  }
  console.line(fmt::format("{}: {} images of batch {}", options.output,
                           images.size(), options.batch.value_or(0)));
  return kExitOk;
}

}  // namespace

Action declare_show_batch(Arguments& arguments) {
  auto options = std::make_shared<ShowBatchOptions>();
  arguments.describe(
      "Writes a picture of training images as a network gets them, augmented "
      "and with their labels. What the recipe tunes has the middle of its "
      "range; --set gives it another value.");
  arguments.positional("RECIPE", options->recipe, "The recipe (YAML).",
                       Complete::recipe, true);
  arguments.option("--output", options->output, "FILE",
                   "The PNG to write (default: batch.png).", Complete::file);
  arguments.option("--batch", options->batch, "N",
                   "Which batch of the training: 0 (default), 1, ...");
  arguments.option("--images", options->images, "N",
                   "Show so many of it at most (default: 36).");
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Show with this key overridden.");
  arguments.example("dtune show-batch recipe.yaml --output batch.png",
                    "what augmentation makes of the images");
  arguments.example(
      "dtune show-batch r.yaml --set 'data.augment=[cutout: 8, mixup: 0.2]'",
      "try another augmentation");
  return [options](const Console& console) {
    return show_batch(console, *options);
  };
}

}  // namespace dtune
