#include "dtune/study/layers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace dtune {
namespace {

constexpr Shape kImage{.channels = 1, .height = 28, .width = 28};
constexpr Shape kColour{.channels = 3, .height = 32, .width = 32};

LayerSpec conv(int channels, int kernel) {
  return {.kind = LayerKind::conv,
          .name = "c",
          .channels = channels,
          .kernel = kernel,
          .where = "recipe.yaml:12:5"};
}

std::vector<LayerSpec> with_padding(LayerSpec layer, int padding) {
  layer.padding = padding;
  return {layer};
}

std::string problem(const std::vector<LayerSpec>& layers, const Shape& input) {
  try {
    infer_shapes(layers, input);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

struct Totals {
  int64_t parameters = 0;
  int64_t flops = 0;
  Shape output;
};

Totals totals(const ModelSpec& model, const Shape& input, int classes) {
  Totals sum;
  for (const LayerInfo& info :
       infer_shapes(expand_model(model, input, classes), input)) {
    sum.parameters += info.parameters;
    sum.flops += info.flops;
    sum.output = info.output;
  }
  return sum;
}

TEST_CASE("every layer kind reads back from its word") {
  for (const std::string& name : layer_kind_names()) {
    const auto kind = parse_layer_kind(name);
    REQUIRE(kind);
    CHECK(to_string(*kind) == name);
  }
  CHECK_FALSE(parse_layer_kind("Conv"));
}

TEST_CASE("shapes are written as channels, height and width") {
  CHECK(to_string(Shape{.channels = 64, .height = 7, .width = 5}) == "64x7x5");
  CHECK(to_string(Shape{.channels = 128, .flat = true}) == "128");
}

TEST_CASE("a convolution keeps the size by default") {
  const auto infos = infer_shapes({conv(32, 3)}, kImage);
  CHECK(infos[0].output == Shape{.channels = 32, .height = 28, .width = 28});
  CHECK(infos[0].parameters == 32 * 9 + 32);
  CHECK(infos[0].flops == 2 * 32 * 9 * 28 * 28);
}

TEST_CASE("groups divide the weights of a convolution") {
  LayerSpec layer = conv(64, 3);
  layer.groups = 32;
  layer.bias = false;
  const auto infos =
      infer_shapes({layer}, {.channels = 32, .height = 8, .width = 8});
  CHECK(infos[0].parameters == 64 * 9);
  layer.groups = 5;
  CHECK(
      problem({layer}, {.channels = 32, .height = 8, .width = 8}) ==
      "recipe.yaml:12:5: layer 'c': groups 5 does not divide both its 32 input "
      "and 64 output channels");
}

TEST_CASE("strides round down as LibTorch does") {
  LayerSpec layer = conv(8, 3);
  layer.stride = 2;
  CHECK(infer_shapes({layer}, kImage)[0].output.height == 14);
  LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 3, .stride = 2};
  CHECK(infer_shapes({pool}, kImage)[0].output.height == 13);
}

TEST_CASE("a kernel that does not fit names its layer, place and remedy") {
  const Shape small{.channels = 64, .height = 3, .width = 3};
  CHECK(problem(with_padding(conv(64, 5), 0), small) ==
        "recipe.yaml:12:5: layer 'c': kernel 5 does not fit its input 64x3x3 "
        "(use padding: 1 or a smaller kernel)");
  LayerSpec pool{.kind = LayerKind::max_pool, .name = "p", .kernel = 9};
  CHECK(problem({pool}, small) ==
        "layer 'p': kernel 9 does not fit its input 64x3x3 (use padding: 3 or "
        "a smaller kernel)");
  pool.kernel = 40;
  CHECK(problem({pool}, small) ==
        "layer 'p': kernel 40 does not fit its input 64x3x3 (use padding: 19 "
        "or a smaller kernel)");
}

TEST_CASE("an image layer after flatten is refused") {
  CHECK(problem({{.kind = LayerKind::flatten, .name = "f"}, conv(8, 3)},
                kImage) ==
        "recipe.yaml:12:5: layer 'c': needs an image, but its input is flat "
        "(784) (move it before flatten and linear)");
  CHECK(problem({{.kind = LayerKind::global_avg_pool, .name = "g"},
                 {.kind = LayerKind::max_pool, .name = "p", .kernel = 2}},
                kImage)
            .starts_with("layer 'p': needs an image"));
}

TEST_CASE("a residual adds equal shapes only") {
  LayerSpec block{.kind = LayerKind::residual, .name = "r"};
  CHECK(problem({block}, kImage) ==
        "layer 'r': its body is empty (give it layers: body: [...])");
  block.body = {conv(8, 3)};
  CHECK(problem({block}, kImage) ==
        "layer 'r': its body gives 8x28x28 but its input is 1x28x28, and the "
        "two are added (give both the same channels and strides)");
  block.shortcut = {conv(8, 1)};
  const auto infos = infer_shapes({block}, kImage);
  CHECK(infos.size() == 1);
  CHECK(infos[0].parameters == 8 * 9 + 8 + 8 + 8);
}

TEST_CASE("numbers that no layer can have are refused") {
  CHECK(problem({conv(0, 3)}, kImage)
            .ends_with("layer 'c': has no output channels (write conv: 32)"));
  CHECK(problem({conv(-1, 3)}, kImage)
            .ends_with("layer 'c': -1 output channels are outside 1 to 65536"));
  CHECK(
      problem({conv(8, 0)}, kImage).ends_with("kernel 0 is outside 1 to 1024"));
  LayerSpec still = conv(8, 3);
  still.stride = 0;
  CHECK(problem({still}, kImage).ends_with("stride 0 is outside 1 to 1024"));
  CHECK(problem(with_padding(conv(8, 3), -2), kImage)
            .ends_with("padding -2 is outside 0 to 1024"));
  LayerSpec drop{.kind = LayerKind::dropout, .name = "d", .p = 1};
  CHECK(problem({drop}, kImage) == "layer 'd': p 1 is outside [0, 1)");
  LayerSpec pool{
      .kind = LayerKind::avg_pool, .name = "p", .kernel = 2, .padding = 2};
  CHECK(problem({pool}, kImage) ==
        "layer 'p': padding 2 is more than half of its kernel 2");
  LayerSpec norm{.kind = LayerKind::group_norm, .name = "n", .groups = 3};
  CHECK(problem({norm}, {.channels = 8, .height = 2, .width = 2}) ==
        "layer 'n': groups 3 does not divide its 8 channels");
  CHECK(problem({conv(65536, 3)}, {.channels = 3, .height = 256, .width = 256})
            .find("has more than 268435456 numbers a sample") !=
        std::string::npos);
}

TEST_CASE("cnn-small costs 25 MFLOP a training image of 28 by 28") {
  const auto infos = infer_shapes(expand_model({}, kImage, 10), kImage);
  int64_t flops = 0;
  for (const LayerInfo& info : infos) flops += info.flops;
  CHECK(infos[0].name == "conv1");
  // Backward costs twice the forward, without the gradient of the input.
  CHECK(3 * flops - infos[0].flops == 24'995'328);
  CHECK(infos.back().name == "linear2");
  CHECK(infos.back().output == Shape{.channels = 10, .flat = true});
}

TEST_CASE("the zoo has the parameters of its papers and of torchvision") {
  const Shape imagenet{.channels = 3, .height = 224, .width = 224};
  CHECK(totals({.arch = "lenet"}, kImage, 10).parameters == 61'706);
  CHECK(
      totals({.arch = "lenet"}, {.channels = 1, .height = 32, .width = 32}, 10)
          .parameters == 61'706);
  CHECK(totals({.arch = "resnet18"}, imagenet, 1000).parameters == 11'689'512);
  CHECK(totals({.arch = "resnet50"}, imagenet, 1000).parameters == 25'557'032);
  CHECK(totals({.arch = "resnet18"}, kColour, 10).parameters == 11'173'962);
  ModelSpec wide{.arch = "wide-resnet", .width = 10, .depth = 28};
  CHECK(totals(wide, kColour, 10).parameters == 36'479'194);
  wide = {.arch = "wide-resnet", .width = 8, .depth = 16};
  CHECK(totals(wide, kColour, 10).parameters == 10'961'370);
  // torchvision's 4.09 GMAC of resnet50 at 224, twice.
  CHECK(totals({.arch = "resnet50"}, imagenet, 1000).flops == 8'178'368'512);
}

TEST_CASE("every architecture ends in the classes, at any width") {
  for (const std::string& name : zoo_names()) {
    for (const int width : {0, 1, 6}) {
      const ModelSpec model{.arch = name, .width = width};
      const Totals sum = totals(model, kColour, 7);
      CHECK(sum.output == Shape{.channels = 7, .flat = true});
    }
  }
}

TEST_CASE("dropout layers take the model's rate") {
  for (const std::string& name : zoo_names()) {
    const ModelSpec model{.arch = name, .dropout = 0.25};
    int found = 0;
    const auto visit = [&](const auto& self,
                           const std::vector<LayerSpec>& layers) -> void {
      for (const LayerSpec& layer : layers) {
        if (layer.kind == LayerKind::dropout) {
          CHECK(layer.p == 0.25);
          ++found;
        }
        self(self, layer.body);
      }
    };
    visit(visit, expand_model(model, kColour, 10));
    CHECK_MESSAGE(found > 0, name);
  }
}

TEST_CASE("an unknown architecture gets a suggestion") {
  CHECK_THROWS_WITH_AS(
      expand_model({.arch = "resnet81"}, kColour, 10),
      "model.arch: unknown architecture 'resnet81', did you mean 'resnet18'?",
      Error);
}

TEST_CASE("a wide residual network has a depth of 6 n + 4") {
  CHECK_THROWS_WITH_AS(
      expand_model({.arch = "wide-resnet", .depth = 18}, kColour, 10),
      "model.depth: wide-resnet has no depth 18 (use 6 n + 4: 10, 16, 22, 28, "
      "34, 40)",
      Error);
}

TEST_CASE("a user's layers get names, a rate and a classifier") {
  ModelSpec model{.dropout = 0.3};
  model.layers = {conv(8, 3),
                  {.kind = LayerKind::dropout},
                  {.kind = LayerKind::dropout, .name = "dropout2", .p = 0.1},
                  {.kind = LayerKind::dropout}};
  model.layers[0].name = "";
  const auto layers = expand_model(model, kImage, 10);
  REQUIRE(layers.size() == 5);
  CHECK(layers[0].name == "conv1");
  CHECK(layers[0].padding == 1);
  CHECK(layers[1].name == "dropout1");
  CHECK(layers[1].p == 0.3);
  CHECK(layers[2].p == 0.1);
  CHECK(layers[3].name == "dropout3");
  CHECK(layers[4].kind == LayerKind::linear);
  CHECK(layers[4].channels == 10);
}

TEST_CASE("a user's last layer stays if it gives the classes") {
  ModelSpec model;
  model.layers = {{.kind = LayerKind::linear, .channels = 10}};
  CHECK(expand_model(model, kImage, 10).size() == 1);
  CHECK(expand_model(model, kImage, 5).size() == 2);
}

TEST_CASE("two layers of one name are refused") {
  ModelSpec model;
  model.layers = {conv(8, 3), conv(8, 3)};
  CHECK_THROWS_WITH_AS(expand_model(model, kImage, 10),
                       "recipe.yaml:12:5: layer 'c': two layers have this name",
                       Error);
}

// Checkpoints hold it: one of an earlier version has to be accepted still.
TEST_CASE("the fingerprint of an architecture never changes") {
  const std::map<std::string, uint64_t> known = {
      {"cnn-small", 0xf79e6850d1fa82b1},
      {"lenet", 0xebedc43c5bb1873c},
      {"resnet18", 0x39331a55913ace23},
      {"resnet50", 0x64630f4b244dbad4},
      {"wide-resnet", 0xb3c0176475e82f8e}};
  for (const auto& [arch, value] : known) {
    CAPTURE(arch);
    ModelSpec model;
    model.arch = arch;
    const Shape image{.channels = 3, .height = 32, .width = 32};
    CHECK(fingerprint(expand_model(model, image, 10)) == value);
  }
  std::vector<LayerSpec> all;  // with all fields, of the kinds that there were
  for (int kind = 0; kind <= static_cast<int>(LayerKind::residual); ++kind) {
    all.push_back({.kind = static_cast<LayerKind>(kind),
                   .name = "l" + std::to_string(kind),
                   .channels = 8,
                   .kernel = 3,
                   .stride = 2,
                   .padding = 1,
                   .groups = 4,
                   .bias = kind % 2 == 0,
                   .p = 0.5});
  }
  all.back().body = {all[0]};
  all.back().shortcut = {all[2]};
  CHECK(fingerprint(all) == 0x3d3f977733268dc8);
}

TEST_CASE("what changes the weights of a layer changes the fingerprint") {
  const LayerSpec layer{.kind = LayerKind::conv,
                        .name = "c",
                        .channels = 8,
                        .kernel = 3,
                        .padding = 1};
  std::vector<LayerSpec> others(9, layer);
  others[0].kind = LayerKind::linear;
  others[1].name = "d";
  others[2].channels = 9;
  others[3].kernel = 5;
  others[4].stride = 2;
  others[5].padding = 2;
  others[6].groups = 2;
  others[7].body = {layer};
  others[8].shortcut = {layer};
  for (const LayerSpec& other : others) {
    CHECK(fingerprint({other}) != fingerprint({layer}));
  }
  LayerSpec same = layer;
  same.where = "recipe.yaml:1:1";
  CHECK(fingerprint({same}) == fingerprint({layer}));
}

TEST_CASE("every kind of layers says which fields it has") {
  std::set<std::string> with_fields;
  for (const std::string& name : layer_kind_names()) {
    const LayerTraits& traits = traits_of(*parse_layer_kind(name));
    CHECK(traits.name == name);
    if (!traits.fields.empty()) with_fields.insert(name);
    // A short form gives a field that there is.
    if (traits.main) {
      CHECK(std::find(traits.fields.begin(), traits.fields.end(),
                      *traits.main) != traits.fields.end());
    }
  }
  CHECK(with_fields == std::set<std::string>{"conv", "linear", "group_norm",
                                             "max_pool", "avg_pool", "dropout",
                                             "residual"});
}

}  // namespace
}  // namespace dtune
