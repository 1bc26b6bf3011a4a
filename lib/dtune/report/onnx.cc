#include "dtune/report/onnx.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/report/protobuf.h"

namespace dtune {
namespace {

using Names = std::vector<std::string>;

constexpr int kFloat = 1;  // TensorProto.DataType
constexpr int kUint8 = 2;
constexpr int kInt64 = 7;
constexpr float kEpsilon = 1e-5F;  // of all normalizations (nn/norm.cc)

template <class Number>
std::string_view bytes_of(std::span<const Number> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// TensorProto: dims 1, data_type 2, name 8, raw_data 9.
ProtoMessage tensor(const std::string& name, int type,
                    std::span<const int64_t> shape, std::string_view raw) {
  ProtoMessage message;
  for (const int64_t size : shape) message.integer(1, size);
  return message.integer(2, type).text(8, name).text(9, raw);
}

// ValueInfoProto: name 1, type 2 {tensor_type 1 {elem_type 1, shape 2 {dim 1
// {dim_value 1, dim_param 2}}}}.
ProtoMessage value_info(const std::string& name, int type,
                        const std::vector<int64_t>& sample) {
  ProtoMessage shape;
  shape.message(1, ProtoMessage().text(2, "N"));
  for (const int64_t size : sample) {
    shape.message(1, ProtoMessage().integer(1, size));
  }
  const auto tensor_type = ProtoMessage().integer(1, type).message(2, shape);
  return ProtoMessage().text(1, name).message(
      2, ProtoMessage().message(1, tensor_type));
}

// AttributeProto: name 1, f 2, i 3, ints 8, type 20 (FLOAT 1, INT 2, INTS 7).
ProtoMessage attribute(const char* name, int64_t value) {
  return ProtoMessage().text(1, name).integer(3, value).integer(20, 2);
}
ProtoMessage attribute(const char* name, float value) {
  return ProtoMessage().text(1, name).real32(2, value).integer(20, 1);
}
ProtoMessage attribute(const char* name, const std::vector<int64_t>& values) {
  ProtoMessage message;
  message.text(1, name);
  for (const int64_t value : values) message.integer(8, value);
  return message.integer(20, 7);
}

// Writes nodes and weights in the order of computation. Values are named by the
// node that makes them.
class Graph {
 public:
  explicit Graph(const SafetensorsFile& weights) : weights_(weights) {}

  std::string node(const char* operation, const Names& inputs,
                   const std::vector<ProtoMessage>& attributes = {},
                   std::string output = "") {
    if (output.empty()) output = fmt::format("{}_{}", operation, ++nodes_);
    // NodeProto: input 1, output 2, name 3, op_type 4, attribute 5.
    ProtoMessage message;
    for (const std::string& input : inputs) message.text(1, input);
    message.text(2, output).text(3, output).text(4, operation);
    for (const ProtoMessage& one : attributes) message.message(5, one);
    graph_.message(1, message);
    return output;
  }

  // A weight of the file under its own name.
  std::string weight(const std::string& name,
                     const std::vector<int64_t>& shape) {
    const auto values = weights_.floats(name, shape);
    initializers_.push_back(tensor(name, kFloat, shape, bytes_of(values)));
    return name;
  }
  std::string constant(std::span<const float> values,
                       const std::vector<int64_t>& shape) {
    return add_constant(kFloat, shape, bytes_of(values));
  }
  std::string number(float value) { return constant({&value, 1}, {}); }
  std::string sizes(const std::vector<int64_t>& values) {
    return add_constant(kInt64, {int64_t(values.size())},
                        bytes_of(std::span<const int64_t>(values)));
  }

  // GraphProto: node 1, name 2, initializer 5, input 11, output 12.
  ProtoMessage finish(const std::string& name, const ProtoMessage& input,
                      const std::vector<ProtoMessage>& outputs) {
    graph_.text(2, name);
    for (const ProtoMessage& one : initializers_) graph_.message(5, one);
    graph_.message(11, input);
    for (const ProtoMessage& output : outputs) graph_.message(12, output);
    return graph_;
  }

 private:
  std::string add_constant(int type, const std::vector<int64_t>& shape,
                           std::string_view raw) {
    std::string name = fmt::format("constant_{}", ++constants_);
    initializers_.push_back(tensor(name, type, shape, raw));
    return name;
  }

  const SafetensorsFile& weights_;
  ProtoMessage graph_;
  std::vector<ProtoMessage> initializers_;
  int nodes_ = 0;
  int constants_ = 0;
};

std::vector<int64_t> twice(int value) { return {value, value}; }

std::vector<int64_t> pads(const LayerSpec& layer) {
  const int64_t padding = effective_padding(layer);
  return {padding, padding, padding, padding};
}

// Adds layers one after the other; each returns the name of its output.
class Network {
 public:
  explicit Network(Graph& graph) : graph_(graph) {}

  std::string list(const std::vector<LayerSpec>& layers, std::string x,
                   Shape shape) {
    for (const LayerSpec& layer : layers) {
      x = add(layer, x, shape);
      shape = infer_shapes({layer}, shape).front().output;
    }
    return x;
  }

 private:
  std::string add(const LayerSpec& layer, const std::string& x,
                  const Shape& input) {
    switch (layer.kind) {
      case LayerKind::conv:
        return conv(layer, x, input);
      case LayerKind::linear:
        return linear(layer, x, input);
      case LayerKind::batch_norm:
        return batch_norm(layer, x, input);
      case LayerKind::group_norm:
        return group_norm(layer, x, input);
      case LayerKind::relu:
        return graph_.node("Relu", {x});
      case LayerKind::gelu:
        return gelu(x);
      case LayerKind::tanh:
        return graph_.node("Tanh", {x});
      case LayerKind::max_pool:
        return graph_.node("MaxPool", {x}, window(layer));
      case LayerKind::avg_pool:
        return average(layer, x);
      case LayerKind::global_avg_pool:
        return graph_.node("Flatten", {graph_.node("GlobalAveragePool", {x})});
      case LayerKind::flatten:
        return graph_.node("Flatten", {x});
      case LayerKind::dropout:
        return x;
      case LayerKind::residual:
        return graph_.node("Add", {list(layer.body, x, input),
                                   list(layer.shortcut, x, input)});
    }
    throw Error(ErrorKind::internal, "onnx: layer of unknown kind");
  }

  static std::vector<ProtoMessage> window(const LayerSpec& layer) {
    return {attribute("kernel_shape", twice(layer.kernel)),
            attribute("strides", twice(layer.stride)),
            attribute("pads", pads(layer))};
  }

  std::string conv(const LayerSpec& layer, const std::string& x,
                   const Shape& input) {
    const int64_t k = layer.kernel;
    Names inputs = {x, graph_.weight(layer.name + ".weight",
                                     {layer.channels,
                                      input.channels / layer.groups, k, k})};
    if (layer.bias) {
      inputs.push_back(graph_.weight(layer.name + ".bias", {layer.channels}));
    }
    std::vector<ProtoMessage> attributes = window(layer);
    attributes.push_back(attribute("group", int64_t{layer.groups}));
    return graph_.node("Conv", inputs, attributes);
  }

  std::string linear(const LayerSpec& layer, std::string x,
                     const Shape& input) {
    if (!input.flat) x = graph_.node("Flatten", {x});
    Names inputs = {x, graph_.weight(layer.name + ".weight",
                                     {layer.channels, input.elements()})};
    if (layer.bias) {
      inputs.push_back(graph_.weight(layer.name + ".bias", {layer.channels}));
    }
    return graph_.node("Gemm", inputs, {attribute("transB", int64_t{1})});
  }

  std::string batch_norm(const LayerSpec& layer, const std::string& x,
                         const Shape& input) {
    Names inputs = {x};
    for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
      inputs.push_back(graph_.weight(fmt::format("{}.{}", layer.name, part),
                                     {input.channels}));
    }
    return graph_.node("BatchNormalization", inputs,
                       {attribute("epsilon", kEpsilon)});
  }

  // Each group as one channel, normalized; then the channels' own scales.
  std::string group_norm(const LayerSpec& layer, const std::string& x,
                         const Shape& input) {
    const auto groups = static_cast<size_t>(layer.groups);
    const std::string grouped =
        graph_.node("Reshape", {x, graph_.sizes({0, layer.groups, -1})});
    const std::string normal = graph_.node(
        "InstanceNormalization",
        {grouped,
         graph_.constant(std::vector<float>(groups, 1), {layer.groups}),
         graph_.constant(std::vector<float>(groups, 0), {layer.groups})},
        {attribute("epsilon", kEpsilon)});
    std::vector<int64_t> shape = {0, input.channels};
    std::vector<int64_t> channels = {input.channels};
    if (!input.flat) {
      shape.insert(shape.end(), {input.height, input.width});
      channels.insert(channels.end(), {1, 1});
    }
    const std::string back =
        graph_.node("Reshape", {normal, graph_.sizes(shape)});
    const auto scale = [&](const char* part) {
      return graph_.node("Reshape",
                         {graph_.weight(fmt::format("{}.{}", layer.name, part),
                                        {input.channels}),
                          graph_.sizes(channels)});
    };
    return graph_.node(
        "Add", {graph_.node("Mul", {back, scale("weight")}), scale("bias")});
  }

  // x / 2 (1 + erf(x / sqrt 2))
  std::string gelu(const std::string& x) {
    const std::string inner = graph_.node(
        "Erf", {graph_.node("Mul", {x, graph_.number(float(std::sqrt(0.5)))})});
    const std::string one = graph_.node("Add", {inner, graph_.number(1)});
    return graph_.node("Mul",
                       {graph_.node("Mul", {x, graph_.number(0.5)}), one});
  }

  std::string average(const LayerSpec& layer, const std::string& x) {
    std::vector<ProtoMessage> attributes = window(layer);
    attributes.push_back(attribute("count_include_pad", int64_t{1}));
    return graph_.node("AveragePool", {x}, attributes);
  }

  Graph& graph_;
};

// uint8 [N, H, W, C] to normalized float [N, C, H, W].
std::string preprocess(Graph& graph, const ModelMetadata& metadata) {
  const std::string real =
      graph.node("Cast", {"images"}, {attribute("to", int64_t{kFloat})});
  const std::string planes =
      graph.node("Transpose", {real},
                 {attribute("perm", std::vector<int64_t>{0, 3, 1, 2})});
  const std::string unit = graph.node("Div", {planes, graph.number(255)});
  const std::vector<int64_t> shape = {metadata.input.channels, 1, 1};
  const std::string centred =
      graph.node("Sub", {unit, graph.constant(metadata.mean, shape)});
  return graph.node("Div",
                    {centred, graph.constant(metadata.deviation, shape)});
}

// StringStringEntryProto: key 1, value 2.
ProtoMessage entry(const std::string& key, const std::string& value) {
  return ProtoMessage().text(1, key).text(2, value);
}

}  // namespace

std::string onnx_model(const ModelMetadata& metadata,
                       const std::vector<LayerSpec>& layers,
                       const SafetensorsFile& weights) {
  Graph graph(weights);
  const Shape& input = metadata.input;
  const std::string last =
      Network(graph).list(layers, preprocess(graph, metadata), input);
  graph.node("Identity", {last}, {}, "logits");
  graph.node("Softmax", {"logits"}, {attribute("axis", int64_t{1})},
             "probabilities");
  const auto classes = static_cast<int64_t>(metadata.class_names.size());
  const ProtoMessage body = graph.finish(
      "network",
      value_info("images", kUint8, {input.height, input.width, input.channels}),
      {value_info("logits", kFloat, {classes}),
       value_info("probabilities", kFloat, {classes})});
  // ModelProto: ir_version 1, producer_name 2, graph 7, opset_import 8 {domain
  // 1, version 2}, metadata_props 14.
  ProtoMessage model;
  model.integer(1, 8).text(2, "dtune").message(7, body);
  model.message(8, ProtoMessage().text(1, "").integer(2, 17));
  for (const auto& [key, value] : weights.metadata()) {
    if (key != "recipe") model.message(14, entry(key, value));
  }
  return model.bytes();
}

}  // namespace dtune
