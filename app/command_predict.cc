// dtune predict: the classes of images by a model that was trained.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "app/command.h"
#include "app/model_files.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/parallel.h"
#include "dtune/data/image_list.h"
#include "dtune/report/table.h"
#include "dtune/train/plugin.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  std::string model;
  std::vector<std::string> images;
  std::optional<uint64_t> threads;
  std::optional<uint64_t> top;
};

// Of one image; no probabilities where it could not be read.
struct ImagePrediction {
  std::string image;
  std::string error;
  std::vector<double> probabilities;  // [classes]

  // The model's answer, then the most probable; among equal ones the first.
  std::vector<size_t> ranking(const ModelMetadata& model) const {
    std::vector<size_t> order(probabilities.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t answer = model.answer(probabilities);
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      if (a == answer || b == answer) return a == answer && b != answer;
      return probabilities[a] > probabilities[b];
    });
    return order;
  }
};

// Images [first, first + count) of the list; the pixels of those that can be
// read follow each other in `pixels`.
std::vector<ImagePrediction> read_batch(const ImageList& list, size_t first,
                                        size_t count,
                                        std::vector<uint8_t>& pixels) {
  std::vector<ImagePrediction> batch(count);
  std::vector<Image> images(count);
  parallel_for(count, [&](size_t i) {
    batch[i].image = list.name(first + i);
    try {
      images[i] = list.read(first + i);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      batch[i].error = error.what();
    }
  });
  pixels.clear();
  for (const Image& image : images) {
    pixels.insert(pixels.end(), image.pixels.begin(), image.pixels.end());
  }
  return batch;
}

// Shares the probabilities out to those that were read.
void share_out(std::span<const double> probabilities, size_t classes,
               std::vector<ImagePrediction>& batch) {
  for (ImagePrediction& one : batch) {
    if (!one.error.empty()) continue;
    one.probabilities.assign(
        probabilities.begin(),
        probabilities.begin() + static_cast<std::ptrdiff_t>(classes));
    probabilities = probabilities.subspan(classes);
  }
}

std::vector<ImagePrediction> predict_all(Predictor& predictor,
                                         const ImageList& list,
                                         size_t classes) {
  std::vector<ImagePrediction> all;
  std::vector<uint8_t> pixels;
  const auto most = static_cast<size_t>(predictor.batch_size());
  for (size_t first = 0; first < list.count(); first += most) {
    std::vector<ImagePrediction> batch =
        read_batch(list, first, std::min(most, list.count() - first), pixels);
    if (!pixels.empty()) {
      share_out(predictor.probabilities(pixels), classes, batch);
    }
    std::ranges::move(batch, std::back_inserter(all));
  }
  return all;
}

std::string json_of(const NamedModel& model,
                    const std::vector<ImagePrediction>& predictions) {
  const std::vector<std::string>& classes = model.metadata.class_names;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ImagePrediction& one : predictions) {
    nlohmann::ordered_json row = {{"image", one.image}};
    if (!one.error.empty()) {
      row["error"] = one.error;
    } else {
      const size_t best = one.ranking(model.metadata).front();
      row["class"] = classes[best];
      row["probability"] = one.probabilities[best];
      for (size_t c = 0; c < classes.size(); ++c) {
        row["probabilities"][classes[c]] = one.probabilities[c];
      }
    }
    list.push_back(std::move(row));
  }
  const nlohmann::ordered_json document = {{"model", model.path.string()},
                                           {"classes", classes},
                                           {"predictions", std::move(list)}};
  return json_text(document, 2);
}

std::string table_of(const Console& console, const NamedModel& model,
                     const std::vector<ImagePrediction>& predictions,
                     size_t top) {
  constexpr int kAnyWidth = 1'000'000;
  std::vector<TableColumn> columns = {{.header = "image", .widest = kAnyWidth}};
  for (size_t i = 0; i < top; ++i) {
    const int rank = static_cast<int>(i);
    columns.push_back({.header = i == 0 ? "class" : "or", .rank = rank});
    columns.push_back(
        {.header = i == 0 ? "probability" : "", .right = true, .rank = rank});
  }
  std::vector<TableRow> rows;
  for (const ImagePrediction& one : predictions) {
    if (!one.error.empty()) continue;
    const std::vector<size_t> order = one.ranking(model.metadata);
    TableRow row = {{printable(one.image)}};
    for (size_t i = 0; i < top; ++i) {
      row.push_back({printable(model.metadata.class_names[order[i]])});
      row.push_back({fmt::format("{:.4f}", one.probabilities[order[i]])});
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  TextStyle style = style_of(console);
  if (!console.out_terminal) style.columns = kAnyWidth;
  std::string text;
  for (const std::string& line : render_table(columns, rows, style)) {
    text += line + "\n";
  }
  return text;
}

// All that could not be read; the exit code.
int report_unreadable(const Console& console,
                      const std::vector<ImagePrediction>& predictions) {
  int code = kExitOk;
  Console text = console;
  text.json = false;  // stdout has the document
  for (const ImagePrediction& one : predictions) {
    if (one.error.empty()) continue;
    text.error(Error(ErrorKind::data, one.error));
    code = kExitConfig;
  }
  return code;
}

int predict(const Console& console, const PredictOptions& options) {
  const NamedModel model = open_model(options.model);
  const ImageList list({options.images.begin(), options.images.end()},
                       model.metadata.input);
  const size_t classes = model.metadata.class_names.size();
  const auto predictor =
      load_engine_for(model.recipe.recipe())
          .make_predictor(model.path, model.recipe.recipe(),
                          static_cast<int>(options.threads.value_or(1)));
  const std::vector<ImagePrediction> predictions =
      predict_all(*predictor, list, classes);
  if (console.json) {
    console.line(json_of(model, predictions));
  } else {
    const size_t top = std::clamp<size_t>(options.top.value_or(2), 1, classes);
    console.print(table_of(console, model, predictions, top));
  }
  return report_unreadable(console, predictions);
}

}  // namespace

Action declare_predict(Arguments& arguments) {
  auto options = std::make_shared<PredictOptions>();
  arguments.describe(
      "Classifies images with a model that 'dtune run' wrote. They are brought "
      "to the size, the channels and the normalisation that the model was "
      "trained with. Images that cannot be read are named, and the exit code "
      "is then 2; the others are classified all the same.");
  arguments.positional("MODEL", options->model,
                       "model.safetensors, or a study.", Complete::model, true);
  arguments.positionals("IMAGES", options->images,
                        "PNG or JPEG files, folders of them, or .npz archives "
                        "with arrays of images.",
                        Complete::file);
  arguments.option("--top", options->top, "N",
                   "Show the N most probable classes (default: 2).",
                   {1, 1'000'000});
  arguments.option("--threads", options->threads, "N", "Default: 1.",
                   kManyThreads);
  arguments.json("As JSON, with the probabilities of all classes.");
  arguments.example("dtune predict recipe.files/model.safetensors photos/",
                    "the class of every image in a folder");
  arguments.example("dtune predict recipe.db a.png b.jpg --json",
                    "the probabilities of all classes, for a script");
  return
      [options](const Console& console) { return predict(console, *options); };
}

}  // namespace dtune
