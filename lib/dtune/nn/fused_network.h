// Networks of one architecture, each with weights of its own, computed as one:
// their channels lie side by side, so that K convolutions are one grouped
// convolution, K linear layers one batched product, and what works channel by
// channel (normalisation, pooling, activations) is as it was. A network's
// numbers never meet another's; results differ from those of single networks by
// rounding.
#pragma once

#include <vector>

#include "dtune/nn/network.h"

namespace dtune {

// Not thread-safe.
class FusedNetwork {
 public:
  // `layers`: of each network. REQUIRES: as Network; networks >= 1. The weights
  // are zeros. `options.init_seed`, `initialize` and `fuse` are not used.
  // Throws Error(config) where the channels of all are too many.
  FusedNetwork(const std::vector<LayerSpec>& layers, const Shape& input,
               int networks, const NetworkOptions& options);

  // Rows are networks; a row is as Network's flat tensor: [K, P], [K, B].
  void set_weights(const at::Tensor& rows);
  void set_buffers(const at::Tensor& rows);
  at::Tensor buffers();
  // Of all backward passes since the last call.
  at::Tensor take_gradients();

  // x: [N, K C, H, W] float32 on the device, best channels-last. Returns logits
  // [N, K classes]. context.each: of each network, in their order.
  at::Tensor forward(const at::Tensor& x, Tape& tape,
                     const PassContext& context) {
    return network_.forward(x, &tape, context);
  }
  void backward(const at::Tensor& dlogits, Tape& tape) {
    network_.backward(dlogits, tape);
  }

 private:
  // Places in the network's flat tensor, by place in the rows, and back.
  struct Places {
    at::Tensor of_rows;
    at::Tensor of_flat;
  };
  template <typename Slice>
  Places find_places(const std::vector<Slice>& slices) const;

  int64_t networks_;
  at::Device device_;
  Network network_;
  Places weights_;
  Places buffers_;
};

// dropout layers' p by their names, of a network's layers.
std::map<std::string, double> dropout_of(const std::vector<LayerSpec>& layers);

}  // namespace dtune
