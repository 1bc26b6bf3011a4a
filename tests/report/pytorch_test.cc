#include "dtune/report/pytorch.h"

#include <cstdlib>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/safetensors.h"
#include "dtune/report/model_card.h"
#include "dtune/report/onnx.h"

using namespace dtune;  // NOLINT: a test

namespace {

ModelMetadata metadata_of(const Shape& input) {
  const auto channels = static_cast<size_t>(input.channels);
  return {.recipe = "",
          .input = input,
          .class_names = {"cat", "dog's \"best\"", "\\ \xc3\xa9"},
          .mean = std::vector<float>(channels, 0.25F),
          .deviation = std::vector<float>(channels, 1)};
}

std::string module_of(const ModelSpec& model, const Shape& input) {
  return pytorch_module(metadata_of(input), expand_model(model, input, 3));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool python_runs() { return std::system("python3 -V >/dev/null 2>&1") == 0; }

// Whether Python takes it for a program.
bool compiles(const std::string& module) {
  const TemporaryDirectory folder("dtune-pytorch");
  const auto path = folder.path() / "model.py";
  write_file_atomic(path, module, false);
  return std::system(
             fmt::format("python3 -m py_compile {}", path.string()).c_str()) ==
         0;
}

LayerSpec of(LayerKind kind, int channels = 0, int kernel = 0) {
  return {.kind = kind, .channels = channels, .kernel = kernel};
}

// Of every kind one, on images and, where it can be, on flat input.
ModelSpec every_kind() {
  LayerSpec grouped = of(LayerKind::conv, 8, 3);
  grouped.groups = 2;
  grouped.bias = false;
  LayerSpec group_norm = of(LayerKind::group_norm);
  group_norm.groups = 4;
  LayerSpec max = of(LayerKind::max_pool, 0, 3);
  max.stride = 2;
  max.padding = 1;
  LayerSpec average = of(LayerKind::avg_pool, 0, 2);
  average.stride = 2;
  LayerSpec dropout = of(LayerKind::dropout);
  dropout.p = 0.25;
  LayerSpec residual = of(LayerKind::residual);
  residual.body = {of(LayerKind::conv, 8, 1), of(LayerKind::tanh)};
  LayerSpec inner = residual;
  residual.body.push_back(inner);
  residual.shortcut = {of(LayerKind::conv, 8, 1)};
  LayerSpec named = of(LayerKind::linear, 6);
  named.name = "forward";
  LayerSpec dotted = of(LayerKind::batch_norm);
  dotted.name = "a.b \"c\"";
  ModelSpec model;
  model.layers = {of(LayerKind::conv, 4, 3),
                  of(LayerKind::batch_norm),
                  of(LayerKind::relu),
                  grouped,
                  group_norm,
                  of(LayerKind::gelu),
                  max,
                  residual,
                  average,
                  named,
                  dotted,
                  dropout,
                  of(LayerKind::flatten),
                  of(LayerKind::linear, 5)};
  return model;
}

}  // namespace

TEST_CASE("every network of the zoo becomes a module that Python reads") {
  if (!python_runs()) MESSAGE("python3 is not there: syntax is not checked");
  for (const std::string& arch : zoo_names()) {
    CAPTURE(arch);
    ModelSpec model;
    model.arch = arch;
    for (const Shape& input :
         {Shape{.channels = 1, .height = 28, .width = 28},
          Shape{.channels = 3, .height = 96, .width = 80}}) {
      const std::string module = module_of(model, input);
      CHECK(has(module, "def network():"));
      CHECK(has(module, "def load(path):"));
      CHECK(has(module, fmt::format("INPUT = ({}, {}, {})", input.channels,
                                    input.height, input.width)));
      CHECK(has(module, "RENAMED = {}"));
      if (python_runs()) CHECK(compiles(module));
    }
  }
}

TEST_CASE("layers of every kind become PyTorch's") {
  const std::string module =
      module_of(every_kind(), {.channels = 3, .height = 12, .width = 16});
  const auto line = [&](const std::string& text) {
    CHECK_MESSAGE(has(module, "(" + text + "),\n"), text);
  };
  line("\"conv1\", nn.Conv2d(3, 4, 3, padding=1)");
  line("\"batch_norm1\", nn.BatchNorm2d(4)");
  line("\"relu1\", nn.ReLU()");
  line("\"conv2\", nn.Conv2d(4, 8, 3, padding=1, groups=2, bias=False)");
  line("\"group_norm1\", nn.GroupNorm(4, 8)");
  line("\"gelu1\", nn.GELU()");
  line("\"max_pool1\", nn.MaxPool2d(3, stride=2, padding=1)");
  line("\"tanh1\", nn.Tanh()");
  line("\"avg_pool1\", nn.AvgPool2d(2)");
  line("\"layer_1_input\", nn.Flatten()");
  line("\"layer_1\", nn.Linear(96, 6)");
  line("\"layer_2\", nn.BatchNorm1d(6)");
  line("\"dropout1\", nn.Dropout(0.25)");
  line("\"flatten1\", nn.Flatten()");
  line("\"linear2\", nn.Linear(6, 5)");
  line("\"linear3\", nn.Linear(5, 3)");
  CHECK(has(module, "(\"residual1\", Residual([\n"));
  CHECK(has(module, "            (\"residual2\", Residual([\n"));
  CHECK(
      has(module, R"(RENAMED = {"layer_1":"forward","layer_2":"a.b \"c\""})"));
  CHECK(has(module,
            "CLASSES = [\"cat\",\"dog's \\\"best\\\"\",\"\\\\ \xc3\xa9\"]"));
  CHECK(has(module, "MEAN = [0.25, 0.25, 0.25]"));
  if (python_runs()) CHECK(compiles(module));
}

namespace {

// A model file of one linear layer over two pixels.
std::filesystem::path small_model(const TemporaryDirectory& folder,
                                  const std::string& threshold = "0.5") {
  const std::vector<float> weight = {1, 2, 3, 4}, bias = {5, 6};
  const FloatTensor tensors[] = {{"linear1.weight", {2, 2}, weight},
                                 {"linear1.bias", {2}, bias}};
  const auto path = folder.path() / "model.safetensors";
  write_safetensors(path, tensors,
                    {{"format", "pt"},
                     {"dtune_format", kModelFormat},
                     {"study", "tiny | <b>"},
                     {"recipe", "study: tiny\n"},
                     {"input_shape", "1x1x2"},
                     {"class_names", R"(["cat","dog"])"},
                     {"mean", "[0.5]"},
                     {"deviation", "[0.25]"},
                     {"metrics", R"({"test_accuracy":0.875})"},
                     {"threshold", threshold},
                     {"trained_on", "train"}},
                    false);
  return path;
}

}  // namespace

TEST_CASE("a model as ONNX has its weights, its classes and both outputs") {
  const TemporaryDirectory folder;
  const SafetensorsFile file(small_model(folder));
  const ModelMetadata metadata = read_model_metadata(file);
  ModelSpec model;
  model.layers = {of(LayerKind::flatten), of(LayerKind::linear, 2)};
  const std::string bytes =
      onnx_model(metadata, expand_model(model, metadata.input, 2), file);
  for (const char* part :
       {"Gemm", "Softmax", "linear1.weight", "logits", "probabilities",
        "class_names", "images", "Transpose"}) {
    CHECK_MESSAGE(has(bytes, part), part);
  }
  const float weights[] = {1, 2, 3, 4};
  CHECK(has(bytes, std::string(reinterpret_cast<const char*>(weights),
                               sizeof weights)));
  CHECK_FALSE(has(bytes, "study: tiny"));
  model.layers.back().channels = 3;  // not what the file has
  CHECK_THROWS_AS(
      onnx_model(metadata, expand_model(model, metadata.input, 3), file),
      Error);
}

TEST_CASE("a model's card says what it is and how it is loaded") {
  const TemporaryDirectory folder;
  const auto path = small_model(folder);
  const std::string card = model_card(SafetensorsFile(path), path);
  CHECK(has(card, "| test_accuracy | 0.8750 |"));
  CHECK(has(card, "Classes, in the order of the logits: cat, dog."));
  CHECK(has(card, "Input: 1x1x2"));
  CHECK(has(card, "dtune eval " + path.string()));
  CHECK(has(card, "net = model.load(\"" + path.string() + "\")"));
  CHECK(has(card, "model.answers(probabilities)"));
  CHECK_FALSE(has(card, "Answer: "));
  const auto chosen = small_model(folder, "0.9375");
  CHECK(has(model_card(SafetensorsFile(chosen), chosen),
            "Answer: the second class where its probability is 0.9375 or "
            "more."));
}
