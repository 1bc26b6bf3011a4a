// The weights that are compiled into the library: weights/*.safetensors.
// Their metadata say which command and which data made them.
#pragma once

#include "dtune/surrogate/conv_lstm.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

// Read at the first call; thread-safe; live as long as the program.
// Learnt from tables of fully connected networks on tabular data.
const LearntPrior& shipped_prior();
const ConvLstm& shipped_network();
// Learnt from CNNs on images.
const LearntPrior& shipped_cnn_prior();
const ConvLstm& shipped_cnn_network();

}  // namespace dtune
