// How many slots a node may have, and how many trials one of them may fuse.
#pragma once

#include <optional>
#include <string>

namespace dtune {

struct Recipe;

// Of one agent; each fused trial counts as one.
inline constexpr int kMaxSlots = 4096;
inline constexpr int kMostFused = 64;

// `resources.fused` and `dtune agent --fused`: "auto" is 0, "off" 1, numbers
// from 2 to kMostFused are themselves; nullopt for other words.
std::optional<int> parse_fused(const std::string& word);
std::string fused_word(int fused);

// Whether trials of the study may be trained at the same time in one process.
bool may_fuse(const Recipe& recipe);

}  // namespace dtune
