// The form that all messages between dtune's processes have: one ZeroMQ
// message is a list of frames. The first is MessagePack,
//   [version, type, {field: value, ...}],
// and holds the fields; each further frame holds the bytes of one field that is
// sent in bulk (floats, a piece of a file), as they are in memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dtune {

using Frames = std::vector<std::string>;

namespace wire {

// Of all messages together: every process of a study is of one version of
// dtune. Larger where any message has changed.
inline constexpr int kVersion = 3;

// Of one frame. The recipe in the control plane's `welcome` is by far the
// largest; a socket closes a connection that sends more.
inline constexpr size_t kMaxFrameBytes = size_t{4} << 20;

// Of a list or a map in the first frame, and of what they nest.
inline constexpr size_t kMaxItems = 4096;
inline constexpr size_t kMaxDepth = 8;

}  // namespace wire
}  // namespace dtune
