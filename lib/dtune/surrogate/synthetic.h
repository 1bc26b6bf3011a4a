// Recorded curves of data sets that do not exist: the prior of FT-PFN
// (Rakotoarison et al. 2024, arXiv 2404.16795; its code ftpfn_prior.py) over
// (learning rate, L2, dropout), with what CNNs are known to do.
//
// A random network f: R^3 -> R^23 makes 23 numbers of every point; by their
// rank among the outputs of such networks they become uniform, and by inverse
// distribution functions the parameters of a curve: its end, the weights and
// shapes of four basis curves (power, exponential, logarithm, Hill), where each
// saturates, how near its end it is there and how it goes on (it may turn
// back). Beside the source:
// - the networks have no noise before each tanh, and the table of ranks holds
//   27,600 outputs of 50 networks instead of a megabyte;
// - no noise of observations (the maker of a study adds it);
// - the learning rate that the network sees is shifted by L2 (a ridge);
// - above an edge in the learning rate, which moves with L2, most data sets
//   fall back to chance;
// - dropout slows the early epochs of some, and raises the end of some.
#pragma once

#include <cstdint>
#include <vector>

#include "dtune/curves/recorded_curves.h"
#include "dtune/surrogate/learnt_prior.h"

namespace dtune {

// Immutable once made; thread-safe.
class SyntheticPrior {
 public:
  SyntheticPrior();  // about a third of a second

  // On these points, at epochs 1 2 3 4 5 7 9 11 13 17 22 27 34 40 46 51 (those
  // of LCBench's cubes); the task is "synthetic-<seed>". The same for the same
  // seed. About 20 ms for 1001 points.
  RecordedCurves draw(const CubeAxes& axes, uint64_t seed) const;

 private:
  std::vector<float> ranks_;  // outputs of networks, ascending
};

}  // namespace dtune
