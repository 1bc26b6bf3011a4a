// Sequences of points in the unit cube, each point a function of its number
// alone, so that a study can be replayed from any trial on.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace dtune {

// Immutable; thread-safe.
class Sequence {
 public:
  virtual ~Sequence() = default;
  // Fills `unit` with point `index` (0, 1, ...), each coordinate in [0, 1).
  // REQUIRES: unit.size() is the number of dimensions of the sequence.
  virtual void point(uint64_t index, std::span<double> unit) const = 0;
};

// Independent uniform coordinates.
std::unique_ptr<Sequence> make_random_sequence(uint64_t seed);

// Sobol's sequence with the direction numbers of Joe and Kuo 2008 (SIAM J. Sci.
// Comput. 30, 2635, doi 10.1137/070709359), in the order of the plain binary
// index, with Owen's nested uniform scrambling done by hashing (Burley 2020,
// "Practical hash-based Owen scrambling", JCGT 9(4)). The first 2^m points
// stay a digital net, so every 2^-m slice of each axis holds exactly one.
// Coordinates beyond the first 40 are pseudo-random.
std::unique_ptr<Sequence> make_sobol_sequence(size_t dimensions, uint64_t seed);
inline constexpr size_t kSobolDimensions = 40;

// Halton's sequence (radical inverses in the first primes) with a random
// permutation of the digits at each place (Owen 2017, arXiv 1706.02808).
std::unique_ptr<Sequence> make_halton_sequence(size_t dimensions,
                                               uint64_t seed);

}  // namespace dtune
