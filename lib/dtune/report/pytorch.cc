#include "dtune/report/pytorch.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

// As a Python literal; JSON's are valid there where no number is infinite.
std::string literal(const nlohmann::json& value) { return json_text(value); }

std::string literal(const std::vector<float>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

// Whether nn.Sequential can have an attribute of that name: its own do not end
// in a digit, but for bfloat16.
bool is_safe_name(const std::string& name) {
  return !name.empty() && is_plain(name, "_") &&
         std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
         std::isdigit(static_cast<unsigned char>(name.back())) != 0 &&
         name != "bfloat16";
}

// "Conv2d(1, 32, 3, padding=1)": arguments with their defaults left out.
class Call {
 public:
  explicit Call(const std::string& function) : text_("nn." + function + "(") {}

  template <typename T>
  Call& value(const T& v) {
    return add(fmt::format("{}", v));
  }
  template <typename T>
  Call& named(const char* name, const T& v, const T& standard) {
    return v == standard ? *this : add(fmt::format("{}={}", name, v));
  }
  std::string done() const { return text_ + ")"; }

 private:
  Call& add(const std::string& argument) {
    if (text_.back() != '(') text_ += ", ";
    text_ += argument;
    return *this;
  }

  std::string text_;
};

std::string conv(const LayerSpec& layer, const Shape& input) {
  Call call("Conv2d");
  call.value(input.channels)
      .value(layer.channels)
      .value(layer.kernel)
      .named("stride", layer.stride, 1)
      .named("padding", effective_padding(layer), 0)
      .named("groups", layer.groups, 1);
  if (!layer.bias) call.named<std::string>("bias", "False", "");
  return call.done();
}

std::string linear(const LayerSpec& layer, const Shape& input) {
  Call call("Linear");
  call.value(input.elements()).value(layer.channels);
  if (!layer.bias) call.named<std::string>("bias", "False", "");
  return call.done();
}

std::string pool(const char* function, const LayerSpec& layer) {
  return Call(function)
      .value(layer.kernel)
      .named("stride", layer.stride, layer.kernel)
      .named("padding", effective_padding(layer), 0)
      .done();
}

// Writes the body of network(): one line for each layer.
class Definition {
 public:
  explicit Definition(const std::vector<LayerSpec>& layers) {
    collect_names(layers);
  }

  void add_list(const std::vector<LayerSpec>& layers, Shape shape, int depth) {
    for (const LayerSpec& layer : layers) {
      add(layer, shape, depth);
      shape = infer_shapes({layer}, shape).front().output;
    }
  }

  const std::string& text() const { return text_; }
  // Python's names and the file's, where they differ.
  const std::map<std::string, std::string>& renamed() const { return renamed_; }

 private:
  void collect_names(const std::vector<LayerSpec>& layers) {
    for (const LayerSpec& layer : layers) {
      taken_.insert(layer.name);
      collect_names(layer.body);
      collect_names(layer.shortcut);
    }
  }

  std::string python_name(const std::string& name) {
    if (is_safe_name(name)) return name;
    std::string safe;
    for (int number = 1; safe.empty(); ++number) {
      const std::string candidate = fmt::format("layer_{}", number);
      if (taken_.insert(candidate).second) safe = candidate;
    }
    renamed_[safe] = name;
    return safe;
  }

  void line(int depth, const std::string& text) {
    text_ += std::string(static_cast<size_t>(4 * depth), ' ') + text + "\n";
  }

  void add(const LayerSpec& layer, const Shape& input, int depth) {
    const std::string name = python_name(layer.name);
    if (layer.kind == LayerKind::residual) {
      add_residual(name, layer, input, depth);
      return;
    }
    if (layer.kind == LayerKind::linear && !input.flat) {
      line(depth, fmt::format("(\"{}_input\", nn.Flatten()),", name));
    }
    line(depth, fmt::format("(\"{}\", {}),", name, module(layer, input)));
  }

  void add_residual(const std::string& name, const LayerSpec& layer,
                    const Shape& input, int depth) {
    line(depth, fmt::format("(\"{}\", Residual([", name));
    add_list(layer.body, input, depth + 1);
    if (layer.shortcut.empty()) {
      line(depth, "], [])),");
      return;
    }
    line(depth, "], [");
    add_list(layer.shortcut, input, depth + 1);
    line(depth, "])),");
  }

  static std::string module(const LayerSpec& layer, const Shape& input) {
    switch (layer.kind) {
      case LayerKind::conv:
        return conv(layer, input);
      case LayerKind::linear:
        return linear(layer, input);
      case LayerKind::batch_norm:
        return Call(input.flat ? "BatchNorm1d" : "BatchNorm2d")
            .value(input.channels)
            .done();
      case LayerKind::group_norm:
        return Call("GroupNorm")
            .value(layer.groups)
            .value(input.channels)
            .done();
      case LayerKind::relu:
        return "nn.ReLU()";
      case LayerKind::gelu:
        return "nn.GELU()";
      case LayerKind::tanh:
        return "nn.Tanh()";
      case LayerKind::max_pool:
        return pool("MaxPool2d", layer);
      case LayerKind::avg_pool:
        return pool("AvgPool2d", layer);
      case LayerKind::global_avg_pool:
        return "nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())";
      case LayerKind::flatten:
        return "nn.Flatten()";
      case LayerKind::dropout:
        return Call("Dropout").value(layer.p).done();
      case LayerKind::residual:
        break;
    }
    throw Error(ErrorKind::internal, "pytorch: layer of unknown kind");
  }

  std::string text_;
  std::set<std::string> taken_;
  std::map<std::string, std::string> renamed_;
};

constexpr const char* kModule =
    R"py(# A network trained by dtune, for PyTorch (pip install torch safetensors):
#
#     net = load("model.safetensors")
#     probabilities = net(preprocess(images)).softmax(1)  # uint8 [N, H, W, C]
#     names = [CLASSES[i] for i in answers(probabilities)]
from collections import OrderedDict

import torch
from safetensors.torch import load_file
from torch import nn

CLASSES = {classes}
INPUT = ({channels}, {height}, {width})  # channels, height, width
MEAN = {mean}
DEVIATION = {deviation}
THRESHOLD = {threshold}  # of two classes: of the second one's probability
RENAMED = {renamed}  # layers that have other names in the file


class Residual(nn.Module):
    def __init__(self, body, shortcut):
        super().__init__()
        self.body = nn.Sequential(OrderedDict(body))
        self.shortcut = nn.Sequential(OrderedDict(shortcut))

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


def network():
    return nn.Sequential(OrderedDict([
{layers}    ]))


def load(path):
    tensors = load_file(path)
    net = network()
    state = {{}}
    for key in net.state_dict():
        layer, tensor = key.split(".")[-2:]
        if tensor != "num_batches_tracked":
            state[key] = tensors.pop(f"{{RENAMED.get(layer, layer)}}.{{tensor}}")
    if tensors:
        raise ValueError(f"{{path}}: not this network's: {{sorted(tensors)}}")
    net.load_state_dict(state)
    return net.eval()


def preprocess(images):
    x = torch.as_tensor(images).permute(0, 3, 1, 2).float() / 255
    mean, deviation = (torch.tensor(v).view(1, -1, 1, 1) for v in (MEAN, DEVIATION))
    return (x - mean) / deviation


def answers(probabilities):
    if len(CLASSES) == 2 and THRESHOLD != 0.5:
        return (probabilities[:, 1] >= THRESHOLD).long()
    return probabilities.argmax(1)
)py";

}  // namespace

std::string pytorch_module(const ModelMetadata& metadata,
                           const std::vector<LayerSpec>& layers) {
  Definition definition(layers);
  definition.add_list(layers, metadata.input, 2);
  return fmt::format(
      kModule, fmt::arg("classes", literal(metadata.class_names)),
      fmt::arg("channels", metadata.input.channels),
      fmt::arg("height", metadata.input.height),
      fmt::arg("width", metadata.input.width),
      fmt::arg("mean", literal(metadata.mean)),
      fmt::arg("deviation", literal(metadata.deviation)),
      fmt::arg("threshold", metadata.threshold),
      fmt::arg("renamed", literal(nlohmann::json(definition.renamed()))),
      fmt::arg("layers", definition.text()));
}

}  // namespace dtune
