#include "dtune/cluster/repeats.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

uint64_t seed_of(const Trial& candidate, int index) {
  return mix_seed({candidate.seed, hash_text("repeat"), uint64_t(index)});
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / double(values.size());
}

}  // namespace

Repeats::Repeats(Study& study, Records& records, const Clock& clock)
    : study_(study), records_(records), clock_(clock) {}

bool Repeats::wanted() const {
  return study_.recipe.final_training.candidates > 1;
}

// The leader; then by their best values, ties in the order of the trials.
std::vector<const Trial*> Repeats::candidates() const {
  const ObjectiveSpec& objective = study_.recipe.objective;
  std::vector<const Trial*> trials;
  for (const Trial& trial : study_.trials) {
    if (trial.kind == TrialKind::search && has_results(study_, trial) &&
        best_report(objective, trial) != nullptr) {
      trials.push_back(&trial);
    }
  }
  std::stable_sort(
      trials.begin(), trials.end(), [&](const Trial* a, const Trial* b) {
        const bool leads = a->id == leader_;
        if (leads != (b->id == leader_)) return leads;
        return *best_value(objective, *a) > *best_value(objective, *b);
      });
  const auto most =
      static_cast<size_t>(study_.recipe.final_training.candidates);
  if (trials.size() > most) trials.resize(most);
  return trials;
}

std::vector<const Trial*> Repeats::repeats_of(const Trial& candidate) const {
  std::vector<const Trial*> found;
  for (const Trial& trial : study_.trials) {
    if (trial.kind != TrialKind::repeat) continue;
    for (int i = 1; i <= kSeeds; ++i) {
      if (trial.seed == seed_of(candidate, i)) found.push_back(&trial);
    }
  }
  return found;
}

std::vector<TrialId> Repeats::begin(TrialId leader) {
  leader_ = leader;
  std::vector<TrialId> wanted;
  for (const Trial* one : candidates()) wanted.push_back(one->id);
  std::vector<TrialId> left;
  for (const TrialId id : wanted) {
    for (int i = 1; i <= kSeeds; ++i) {
      const uint64_t seed = seed_of(study_.trial(id), i);
      const auto known = std::find_if(
          study_.trials.begin(), study_.trials.end(), [&](const Trial& t) {
            return t.kind == TrialKind::repeat && t.seed == seed;
          });
      Trial& trial =
          known != study_.trials.end() ? *known : add(study_.trial(id), seed);
      if (trial.state == TrialState::running) {
        records_.change(trial, TrialState::paused, Reason::resumed,
                        "its coordinator had ended");
      }
      if (!is_terminal(trial.state) || trial.state == TrialState::lost) {
        left.push_back(trial.id);
      }
    }
  }
  return left;
}

Trial& Repeats::add(const Trial& candidate, uint64_t seed) {
  Trial fresh;
  fresh.id = static_cast<TrialId>(study_.trials.size()) + 1;
  fresh.kind = TrialKind::repeat;
  fresh.point = candidate.point;
  fresh.unit = candidate.unit;
  fresh.seed = seed;
  fresh.target_step = study_.horizon;
  fresh.created_ms = clock_.wall_ms();
  const std::string why =
      fmt::format("trial {} again with another seed", candidate.id);
  study_.trials.push_back(std::move(fresh));
  Trial& trial = study_.trials.back();
  records_.change(trial, TrialState::waiting, Reason::proposed, why);
  records_.decide(trial, DecisionMaker::coordinator, "repeat", why);
  return trial;
}

TrialId Repeats::winner() const {
  const ObjectiveSpec& objective = study_.recipe.objective;
  TrialId best = 0;
  std::optional<double> most;
  for (const Trial* candidate : candidates()) {
    std::vector<double> values;
    for (const Trial* trial : repeats_of(*candidate)) {
      const auto value = best_value(objective, *trial);
      if (value && has_results(study_, *trial)) values.push_back(*value);
    }
    if (values.empty()) continue;
    values.push_back(*best_value(objective, *candidate));
    const double own = mean(values);
    if (most && own <= *most) continue;
    most = own;
    best = candidate->id;
  }
  return best;
}

std::string Repeats::why(TrialId winner) const {
  const ObjectiveSpec& objective = study_.recipe.objective;
  const Trial& trial = study_.trial(winner);
  const double sign = objective.goal == Goal::maximize ? 1 : -1;
  std::vector<double> values;
  for (const Trial* repeat : repeats_of(trial)) {
    if (const auto value = best_value(objective, *repeat)) {
      values.push_back(sign * *value);
    }
  }
  return fmt::format(
      "of {} candidates trial {} has the best mean {}: {:.6g} in the search, "
      "{:.6g} on average of {} training{} with other seeds",
      candidates().size(), winner, objective.metric,
      sign * *best_value(objective, trial), mean(values), values.size(),
      values.size() == 1 ? "" : "s");
}

}  // namespace dtune
