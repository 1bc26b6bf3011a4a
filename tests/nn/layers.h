// Small layer lists for the tests of nn.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dtune/study/layers.h"

namespace dtune {

inline LayerSpec layer(LayerKind kind, const std::string& name) {
  LayerSpec spec;
  spec.kind = kind;
  spec.name = name;
  return spec;
}

inline LayerSpec conv(const std::string& name, int channels, int kernel = 3,
                      int stride = 1) {
  LayerSpec spec = layer(LayerKind::conv, name);
  spec.channels = channels;
  spec.kernel = kernel;
  spec.stride = stride;
  return spec;
}

inline LayerSpec linear(const std::string& name, int features) {
  LayerSpec spec = layer(LayerKind::linear, name);
  spec.channels = features;
  return spec;
}

inline LayerSpec pool(LayerKind kind, const std::string& name, int kernel = 2,
                      int stride = 2) {
  LayerSpec spec = layer(kind, name);
  spec.kernel = kernel;
  spec.stride = stride;
  return spec;
}

inline LayerSpec norm(const std::string& name) {
  return layer(LayerKind::batch_norm, name);
}

inline LayerSpec relu(const std::string& name) {
  return layer(LayerKind::relu, name);
}

inline LayerSpec dropout(const std::string& name, double p) {
  LayerSpec spec = layer(LayerKind::dropout, name);
  spec.p = p;
  return spec;
}

inline LayerSpec group_norm(const std::string& name, int groups) {
  LayerSpec spec = layer(LayerKind::group_norm, name);
  spec.groups = groups;
  return spec;
}

inline LayerSpec residual(const std::string& name, std::vector<LayerSpec> body,
                          std::vector<LayerSpec> shortcut = {}) {
  LayerSpec spec = layer(LayerKind::residual, name);
  spec.body = std::move(body);
  spec.shortcut = std::move(shortcut);
  return spec;
}

inline std::vector<LayerSpec> zoo(const std::string& arch, const Shape& image,
                                  double p = 0) {
  ModelSpec model;
  model.arch = arch;
  model.dropout = p;
  return expand_model(model, image, 10);
}

}  // namespace dtune
