#include "dtune/speed/weights/embedded.h"

#include "dtune/base/embed.h"

DTUNE_EMBED(dtune_weights_speeds, DTUNE_WEIGHTS_DIR "/speeds.safetensors");

namespace dtune {

std::span<const std::byte> embedded_speed_weights() {
  return DTUNE_EMBEDDED(dtune_weights_speeds);
}

}  // namespace dtune
