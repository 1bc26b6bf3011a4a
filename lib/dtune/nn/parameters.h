// Where the weights of a network live: one flat tensor for all values, one for
// all gradients, one for all running statistics; layers hold views.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "dtune/nn/network.h"
#include "dtune/nn/workspace.h"

namespace dtune {

// Views of the flat tensors; defined once the pool is allocated.
struct Parameter {
  at::Tensor value;
  at::Tensor gradient;
};

// How a parameter or buffer starts.
struct Fill {
  enum class Kind { he_uniform, constant };
  Kind kind = Kind::constant;
  int64_t fan_in = 0;  // he_uniform
  double value = 0;    // constant

  static Fill he(int64_t fan_in) { return {Kind::he_uniform, fan_in, 0}; }
  static Fill of(double value) { return {Kind::constant, 0, value}; }
};

// Layers declare what they need while they are made, then the pool allocates
// everything at once. References that declare returned stay valid.
class ParameterPool {
 public:
  // Parameters declared from now on belong to this top-level layer.
  void begin_layer(int index) { layer_ = index; }

  // Throws Error(config) if the name is taken.
  const Parameter& declare(const std::string& name, std::vector<int64_t> shape,
                           bool decays, Fill fill);
  const at::Tensor& declare_buffer(const std::string& name,
                                   std::vector<int64_t> shape, double value);

  // Call once, after all layers have been made.
  void allocate(const NetworkOptions& options);

  at::Tensor weights;
  at::Tensor gradients;
  at::Tensor buffers;
  std::vector<ParameterSlice> parameter_slices;
  std::vector<BufferSlice> buffer_slices;
  const std::shared_ptr<Workspace> workspace = std::make_shared<Workspace>();

 private:
  void fill_weights(float* data, uint64_t seed) const;

  int layer_ = 0;
  int64_t weight_count_ = 0;
  int64_t buffer_count_ = 0;
  std::vector<Fill> fills_;
  std::vector<double> buffer_values_;
  std::deque<Parameter> parameters_;
  std::deque<at::Tensor> buffer_views_;
};

}  // namespace dtune
