// How fast a rank is in round after round while something slows it: made from
// a seed, or read from a file. What the speed predictor learns from and is
// judged by.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace dtune {

enum class Slowness {
  constant,   // nothing but noise
  periodic,   // other jobs that come and go: square or sinus, not quite regular
  spiky,      // stalls of one round to three, at random
  drifting,   // throttling, memory pressure: ramps, or a slow random walk
  switching,  // contention: a Markov chain of two states
  mixed,      // the product of two of those
};

inline constexpr std::array kSlownesses = {
    Slowness::constant, Slowness::periodic,  Slowness::spiky,
    Slowness::drifting, Slowness::switching, Slowness::mixed};

const char* to_string(Slowness kind);

// Speeds (> 0) of `rounds` rounds, relative to the undisturbed rank's. Depths,
// lengths, noise (0.5% to 8%) and the kind of wave are drawn from the seed; the
// same on every machine but for the last bits of exp and sin.
std::vector<double> make_speed_trace(Slowness kind, size_t rounds,
                                     uint64_t seed);

// A text file of one speed (samples a second; any unit) a line; empty lines
// and what follows a '#' are skipped, as is a first line that is a heading.
// Throws Error(data) naming file and line; also for fewer than two speeds.
std::vector<double> read_speed_trace(const std::filesystem::path& path);

// Such a file, or one that `--trace` wrote of a gang: then a trace for each rank,
// the samples that it had in a round over the time of its forward and backward
// passes. Throws as above.
std::vector<std::vector<double>> read_speed_traces(
    const std::filesystem::path& path);

}  // namespace dtune
