// A trained model as ONNX, which onnxruntime and other engines run.
#pragma once

#include <string>
#include <vector>

#include "dtune/base/safetensors.h"
#include "dtune/study/layers.h"
#include "dtune/study/model_metadata.h"

namespace dtune {

// The bytes of an .onnx file (IR version 8, operators of version 17).
//   input   "images": uint8 [N, height, width, channels], as `dtune predict`
//           reads them
//   outputs "logits" and "probabilities": float [N, classes]
// Metadata: class_names (JSON), and the text metadata of the model's file but
// for the recipe. What those operators do not have is made of others: gelu of
// Erf, group_norm of InstanceNormalization.
// `layers`: as expand_model returns them for metadata.input. Throws Error(data)
// where the file has not their weights.
std::string onnx_model(const ModelMetadata& metadata,
                       const std::vector<LayerSpec>& layers,
                       const SafetensorsFile& weights);

}  // namespace dtune
