#include "dtune/surrogate/weights/embedded.h"

#include "dtune/base/embed.h"

DTUNE_EMBED(dtune_weights_prior, DTUNE_WEIGHTS_DIR "/prior.safetensors");
DTUNE_EMBED(dtune_weights_cnn_prior,
            DTUNE_WEIGHTS_DIR "/cnn-prior.safetensors");
DTUNE_EMBED(dtune_weights_network, DTUNE_WEIGHTS_DIR "/network.safetensors");
DTUNE_EMBED(dtune_weights_cnn_network,
            DTUNE_WEIGHTS_DIR "/cnn-network.safetensors");

namespace dtune {

std::span<const std::byte> embedded_prior() {
  return DTUNE_EMBEDDED(dtune_weights_prior);
}

std::span<const std::byte> embedded_cnn_prior() {
  return DTUNE_EMBEDDED(dtune_weights_cnn_prior);
}

std::span<const std::byte> embedded_network() {
  return DTUNE_EMBEDDED(dtune_weights_network);
}

std::span<const std::byte> embedded_cnn_network() {
  return DTUNE_EMBEDDED(dtune_weights_cnn_network);
}

}  // namespace dtune
