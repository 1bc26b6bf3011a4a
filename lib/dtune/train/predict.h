// Predictions of a trained model for images that no data set holds.
#pragma once

#include <memory>

#include "dtune/train/plugin.h"

namespace dtune {

// See Engine::make_predictor. Computes on the device that the recipe names.
std::unique_ptr<Predictor> make_model_predictor(
    const std::filesystem::path& model, const Recipe& recipe, int threads);

}  // namespace dtune
