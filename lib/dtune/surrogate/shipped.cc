#include "dtune/surrogate/shipped.h"

#include "dtune/surrogate/weights/embedded.h"

namespace dtune {

const LearntPrior& shipped_prior() {
  static const LearntPrior prior =
      LearntPrior::load(embedded_prior(), "the shipped prior");
  return prior;
}

const LearntPrior& shipped_cnn_prior() {
  static const LearntPrior prior =
      LearntPrior::load(embedded_cnn_prior(), "the shipped prior of CNNs");
  return prior;
}

const ConvLstm& shipped_network() {
  static const ConvLstm network =
      ConvLstm::from_bytes(embedded_network(), "the shipped network");
  return network;
}

const ConvLstm& shipped_cnn_network() {
  static const ConvLstm network = ConvLstm::from_bytes(
      embedded_cnn_network(), "the shipped network of CNNs");
  return network;
}

}  // namespace dtune
