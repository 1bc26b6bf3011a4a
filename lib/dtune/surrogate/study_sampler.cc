#include "dtune/surrogate/study_sampler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "dtune/base/error.h"
#include "dtune/base/parallel.h"
#include "dtune/surrogate/recorded_cubes.h"

namespace dtune {
namespace {

constexpr float kLastFrameWeight = 3;
// Beyond so many deviations a target teaches nothing more than "far off", but
// its gradient would drown a whole batch.
constexpr float kFarOff = 15;

// Log-uniform from 1; now and then none yet.
size_t draw_count(size_t most, Rng& rng) {
  if (rng.uniform() < 0.03) return 0;
  const double count = std::pow(static_cast<double>(most), rng.uniform());
  return std::clamp<size_t>(static_cast<size_t>(std::lround(count)), 1, most);
}

// What of the context a study would know; recorded studies are of one kind of
// network, so that others know little that counts.
CubeContext draw_context(const RecordedCube& cube, Rng& rng) {
  CubeContext context;
  const bool all = rng.uniform() < 0.7;
  const auto known = [&](double value) {
    return all || rng.uniform() < 0.5 ? std::optional(value) : std::nullopt;
  };
  context.batch_size = known(cube.context[0]);
  context.width = known(cube.context[1]);
  context.momentum = known(cube.context[2]);
  context.depth = known(cube.context[3]);
  return context;
}

std::vector<std::vector<RecordedCube>> by_task(
    std::vector<RecordedCube> cubes) {
  std::map<std::string, std::vector<RecordedCube>> tasks;
  for (RecordedCube& cube : cubes) {
    std::vector<RecordedCube>& group = tasks[cube.task];
    group.push_back(std::move(cube));
  }
  std::vector<std::vector<RecordedCube>> result;
  result.reserve(tasks.size());
  for (auto& [name, group] : tasks) result.push_back(std::move(group));
  return result;
}

std::string data_set_of(const std::string& task) {
  return task.substr(0, task.rfind('-'));
}

// Pulls targets towards the process as far as kFarOff says.
void limit_targets(TrainingSample& sample) {
  for (size_t i = 0; i < sample.target.size(); ++i) {
    const float mean = sample.study.mean[i];
    const float most = kFarOff * sample.study.deviation[i];
    sample.target[i] = std::clamp(sample.target[i], mean - most, mean + most);
  }
}

}  // namespace

std::vector<std::string> siblings(const std::string& task,
                                  const std::vector<std::string>& tasks) {
  std::vector<std::string> found;
  for (const std::string& other : tasks) {
    if (data_set_of(other) == data_set_of(task)) found.push_back(other);
  }
  if (found.size() == tasks.size()) return {task};
  return found;
}

StudySampler::StudySampler(std::shared_ptr<const LearntPrior> prior,
                           std::vector<RecordedCube> cubes,
                           const SamplerOptions& options)
    : prior_(std::move(prior)),
      tasks_(by_task(std::move(cubes))),
      options_(options),
      grid_(prior_->axes(), unit_of_axes(prior_->axes())) {
  DTUNE_CHECK(!tasks_.empty());
}

StudyCube StudySampler::draw_cube(const RecordedCube& cube, Rng& rng) const {
  StudyCube recorded(prior_->axes(), cube.values);
  if (rng.uniform() >= options_.augmented) return recorded;
  const double kind = rng.uniform();
  const double any_axis = rng.uniform();
  const int axis = any_axis < 0.5 ? 0 : any_axis < 0.8 ? 1 : 2;
  const double bend = std::exp(rng.uniform(std::log(0.4), std::log(2.5)));
  if (kind < 0.4) return recorded.bent(axis, 1, true);
  if (kind < 0.7) return recorded.bent(axis, bend, false);
  const RecordedCurves curves = synthetic_.draw(prior_->axes(), rng());
  return {prior_->axes(), recorded_cube(curves, prior_->axes()).values};
}

StudyCase StudySampler::draw_case(const RecordedCube& cube,
                                  const CubePrior& prior, Rng& rng) const {
  StudyCube truth = draw_cube(cube, rng);
  if (rng.uniform() < 0.5) {
    const double range = rng.uniform(0.2, 1.0);
    truth = truth.scaled(rng.uniform(0.0, 1 - range), range);
  }
  const double noise =
      rng.uniform() < 0.5
          ? 0
          : std::exp(rng.uniform(std::log(0.001), std::log(0.03)));
  std::vector<size_t> stages;
  for (size_t i = 0; i < options_.stages; ++i) {
    stages.push_back(draw_count(options_.max_observations, rng));
  }
  std::sort(stages.begin(), stages.end());
  constexpr size_t kMostPending = 8;
  std::vector<ProcessObservation> observations = partial_study(
      truth, prior.best_point(), stages.back() + kMostPending, noise, rng);
  return {std::move(truth), std::move(observations), noise, std::move(stages)};
}

TrainingSample sample_of(const FreezeThawProcess& process,
                         const FeatureGrid& grid, const StudyCase& study,
                         size_t done, size_t slots) {
  const std::span<const ProcessObservation> all = study.observations;
  TrainingSample sample;
  sample.observations = done;
  sample.study = grid_features(process, grid, all.first(done),
                               pending_after(all, done, slots));
  const std::span<const ProcessInput> inputs = grid.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double y = study.cube.value(inputs[i].cube, inputs[i].time);
    sample.target.push_back(static_cast<float>(process.warp()(y)));
    const size_t frame = i / kGridVoxels;
    const bool last = frame + 1 == size_t{kGridFrames};
    const bool known = study.noise == 0 && sample.study.seen[i] > 0.999F;
    sample.weight.push_back(known ? 0
                            : last
                                ? kLastFrameWeight
                                : static_cast<float>(frame + 1) / kGridFrames);
  }
  return sample;
}

void StudySampler::add_stages(const StudyCase& study,
                              const std::shared_ptr<const CubePrior>& prior,
                              Rng& rng,
                              std::vector<TrainingSample>& samples) const {
  FreezeThawProcess process(prior, 3);
  for (const size_t done : study.stages) {
    for (size_t i = process.size(); i < done; ++i) {
      process.observe(study.observations[i]);
    }
    // Running studies fit every few observations: hyper-parameters are late,
    // or not yet fitted at all.
    if (rng.uniform() < 0.85) process.fit(static_cast<int>(3 + rng.below(6)));
    const size_t slots = rng.uniform() < 0.65 ? 0 : 1 + rng.below(8);
    samples.push_back(sample_of(process, grid_, study, done, slots));
    limit_targets(samples.back());
  }
}

std::vector<TrainingSample> StudySampler::draw(uint64_t seed) const {
  Rng rng(mix_seed({hash_text("study sampler"), seed}));
  const std::vector<RecordedCube>& task = tasks_[rng.below(tasks_.size())];
  const RecordedCube& cube = task[rng.below(task.size())];
  const auto prior = std::make_shared<const CubePrior>(prior_->condition(
      draw_context(cube, rng), siblings(cube.task, prior_->tasks())));
  std::vector<TrainingSample> samples;
  for (size_t i = 0; i < options_.studies; ++i) {
    add_stages(draw_case(cube, *prior, rng), prior, rng, samples);
  }
  return samples;
}

std::vector<TrainingSample> draw_samples(const StudySampler& sampler,
                                         uint64_t first_seed, size_t draws,
                                         unsigned threads) {
  std::vector<std::vector<TrainingSample>> parts(draws);
  parallel_for(
      draws,
      [&](size_t i) {
        parts[i] = sampler.draw(mix_seed({first_seed, i}));
      },
      threads);
  std::vector<TrainingSample> samples;
  for (std::vector<TrainingSample>& part : parts) {
    std::ranges::move(part, std::back_inserter(samples));
  }
  return samples;
}

}  // namespace dtune
