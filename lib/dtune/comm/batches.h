// Messages that wait for one peer, sent several at once. What is sent at once
// is bounded: a gateway holds what has come of a message whose end is still to
// come, and no more of it than it has room for (gateway.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "dtune/wire/frames.h"

namespace dtune {

// Of several messages; a single one may be larger.
inline constexpr size_t kBatchBytes = size_t{48} << 10;

// Passes `waiting`, each frame a message, to `send` in batches, and removes
// those that it took (true); from the first that it did not take, all stay.
// `peer` comes before the frames of each batch, where it is not "".
void send_batches(Frames& waiting, const std::string& peer,
                  const std::function<bool(Frames)>& send);

}  // namespace dtune
