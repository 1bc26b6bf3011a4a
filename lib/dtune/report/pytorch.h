// A trained model as Python: what PyTorch's users need to go on with it.
#pragma once

#include <string>
#include <vector>

#include "dtune/study/layers.h"
#include "dtune/study/model_metadata.h"

namespace dtune {

// A Python module that needs PyTorch and the package safetensors alone:
//   network()         the architecture, an nn.Sequential with the layers' names
//   load(path)        that with the weights of a model file, to be evaluated
//   preprocess(images)  uint8 [N, height, width, channels] to what it reads
//   CLASSES           names, in the order of the logits
// Lists and residual blocks are nested nn.Sequentials; a layer whose name is no
// safe attribute in Python gets another one, which load() maps back.
// `layers`: as expand_model returns them for metadata.input.
std::string pytorch_module(const ModelMetadata& metadata,
                           const std::vector<LayerSpec>& layers);

}  // namespace dtune
