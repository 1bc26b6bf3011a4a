// Makes what the network is trained on: partial studies of recorded and of
// synthetic data sets; its grid features come from a process that has not seen
// the data set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dtune/surrogate/grid_features.h"
#include "dtune/surrogate/learnt_prior.h"
#include "dtune/surrogate/partial_study.h"
#include "dtune/surrogate/synthetic.h"

namespace dtune {

// A study as grid features and what the network should have said. Vectors are
// [frame][lr][l2][dropout].
struct TrainingSample {
  GridFeatures study;
  std::vector<float> target;  // z of the noise-free metric
  // 0 where that was observed without noise; more at later frames, most at the
  // last.
  std::vector<float> weight;
  size_t observations = 0;
};

struct SamplerOptions {
  // Share of studies of data sets that are unlike recorded ones: an axis
  // reversed (the learnt prior misleads), an axis bent, or synthetic. With fewer
  // the network relies on directions that it has always seen, and orders points
  // worse than the process does (tests/README.md).
  double augmented = 0.85;
  size_t max_observations = 120;
  size_t studies = 4;  // of one draw: conditioning a prior is dear
  size_t stages = 3;   // moments of one study
};

// A study by chance and the moments at which it is looked at.
struct StudyCase {
  StudyCube cube;
  std::vector<ProcessObservation> observations;
  double noise = 0;
  std::vector<size_t> stages;  // numbers of observations, ascending
};

// A process with these observations, hyper-parameters fitted; and what it
// turns into grid features, as a sample with the cube's truth.
TrainingSample sample_of(const FreezeThawProcess& process,
                         const FeatureGrid& grid, const StudyCase& study,
                         size_t done, size_t slots);

// Those of `tasks` that are of the same data set as `task`, itself among them,
// by their names alone: DATA-SETTING, as "mnist-adam", or DATA. `task` alone where
// that would be all.
std::vector<std::string> siblings(const std::string& task,
                                  const std::vector<std::string>& tasks);

// Immutable once made; thread-safe.
class StudySampler {
 public:
  // Draws data sets by task first, then by setting. `prior` must have been
  // learnt without what is judged; the drawn task and its siblings() are left out
  // of it.
  // REQUIRES: cubes not empty, of the prior's axes.
  StudySampler(std::shared_ptr<const LearntPrior> prior,
               std::vector<RecordedCube> cubes, const SamplerOptions& options);

  // options.studies x options.stages samples of one data set and setting; the
  // same for the same seed.
  std::vector<TrainingSample> draw(uint64_t seed) const;

  // A study of this cube, changed by chance as the options say.
  StudyCase draw_case(const RecordedCube& cube, const CubePrior& prior,
                      Rng& rng) const;

  const FeatureGrid& grid() const { return grid_; }
  size_t samples_of_draw() const { return options_.studies * options_.stages; }

 private:
  StudyCube draw_cube(const RecordedCube& cube, Rng& rng) const;
  void add_stages(const StudyCase& study,
                  const std::shared_ptr<const CubePrior>& prior, Rng& rng,
                  std::vector<TrainingSample>& samples) const;

  std::shared_ptr<const LearntPrior> prior_;
  std::vector<std::vector<RecordedCube>> tasks_;  // cubes of each
  SamplerOptions options_;
  SyntheticPrior synthetic_;
  FeatureGrid grid_;
};

// The samples of `draws` draws with seeds that follow from `first_seed`, made
// by several threads; the same whatever their number.
std::vector<TrainingSample> draw_samples(const StudySampler& sampler,
                                         uint64_t first_seed, size_t draws,
                                         unsigned threads);

}  // namespace dtune
