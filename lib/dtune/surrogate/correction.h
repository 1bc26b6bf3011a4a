// The interface between the process and the network that corrects it.
//
// The process (freeze_thaw_process.h) says of every point and time a mean and a
// deviation. Its normal distribution is wrong where curves have walls
// ("diverges or learns"), ridges and saturation. The network reads what the
// process says on a grid of the recorded cube, frame by frame, and answers for
// every voxel and frame with a distribution of
//   z = (y - mean) / deviation,
// a mixture of three normals. Where it has nothing to say that is the fixed
// heavy-tailed mixture below.
#pragma once

#include <array>
#include <vector>

namespace dtune {

inline constexpr int kMixtureParts = 3;

// A distribution of z. Weights sum to 1, scales are positive.
struct Correction {
  std::array<double, kMixtureParts> weight;
  std::array<double, kMixtureParts> shift;
  std::array<double, kMixtureParts> scale;
};

// What is left of a study's surprises once a process is fitted: residuals have
// a median absolute value below a normal's and far heavier tails.
inline constexpr Correction kHeavyTails = {
    {0.7, 0.25, 0.05}, {0, 0, 0}, {0.7, 2, 6}};

// ln P(z > x) of a standard normal z; finite for every finite x.
double log_normal_tail(double x);
// ln P(z > threshold); finite for every finite threshold.
double log_upper_tail(const Correction& correction, double threshold);
// ln of the density at z.
double log_density(const Correction& correction, double z);
double mean_of(const Correction& correction);

// The grid that the network reads: evenly spaced between the ends of the
// recorded cube's axes; frames at the prior's times.
inline constexpr int kGridLr = 7;
inline constexpr int kGridL2 = 6;
inline constexpr int kGridDropout = 4;
inline constexpr int kGridVoxels = kGridLr * kGridL2 * kGridDropout;
inline constexpr int kGridFrames = 8;

// A study as the network reads it. All vectors are [frame][lr][l2][dropout],
// dropout fastest. All values are z of the process's map (warp.h), the
// observed ones too: targets likewise.
struct GridFeatures {
  std::vector<float> mean;       // of the process's posterior
  std::vector<float> deviation;  // > 0
  // Observations, spread over the (up to eight) voxels around each with the
  // weights of linear interpolation: the sum of weights, cut at 1, and the
  // weighted mean of the values (0 where there is none).
  std::vector<float> seen;
  std::vector<float> value;
  // Likewise of steps that are being trained now.
  std::vector<float> pending;
  double best = 0;   // z of the largest value observed; if none, of the prior's
  double scale = 1;  // of the process: z of one unit of the prior's
};

}  // namespace dtune
