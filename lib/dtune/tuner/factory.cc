#include "dtune/tuner/factory.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/surrogate/shipped.h"
#include "dtune/tuner/cube_map.h"
#include "dtune/tuner/learnt_part.h"
#include "dtune/tuner/prior.h"
#include "dtune/tuner/samplers.h"
#include "dtune/tuner/schedulers.h"
#include "dtune/tuner/surrogate_tuner.h"

namespace dtune {
namespace {

// Null `make`: decides by the surrogate.
struct SamplerEntry {
  NamedKind kind;
  std::unique_ptr<Sampler> (*make)(const Recipe&);
};

struct SchedulerEntry {
  NamedKind kind;
  std::unique_ptr<Scheduler> (*make)(const Recipe&, int horizon);
};

// Everything that `sampler.kind` and `scheduler.kind` may be. A new way of
// tuning is a file of its own and a line here.
const std::vector<SamplerEntry>& samplers() {
  static const std::vector<SamplerEntry> table = {
      {{"convlstm",
        "largest expected gain by recorded studies, a ConvLSTM and the study "
        "itself",
        {}},
       nullptr},
      {{"learnt-gp",
        "the same by the process learnt from recorded studies",
        {}},
       nullptr},
      {{"plain-gp", "the same by a process of this study's curves alone", {}},
       nullptr},
      {{"sobol", "scrambled Sobol points: random, but evenly spread", {}},
       make_sobol_sampler},
      {{"halton", "scrambled Halton points, for many parameters", {}},
       make_halton_sampler},
      {{"random", "independent random points", {}}, make_random_sampler},
      {{"gp",
        "Gaussian process of results, not of curves; log expected improvement",
        {"startup"}},
       make_gp_sampler},
      {{"tpe",
        "tree-structured Parzen estimators",
        {"startup", "candidates", "gamma"}},
       make_tpe_sampler},
      {{"grid", "every combination", {"points", "order"}}, make_grid_sampler},
  };
  return table;
}

const std::vector<SchedulerEntry>& schedulers() {
  static const std::vector<SchedulerEntry> table = {
      {{"freeze-thaw",
        "gives each next step to the trial with the largest expected gain over "
        "the leader",
        {"epsilon"}},
       nullptr},
      {{"asha",
        "pauses all but the best 1/eta at each rung",
        {"mode", "eta", "min_steps"}},
       make_asha_scheduler},
      {{"hyperband",
        "asha from several first rungs, each with the same budget",
        {"eta", "min_steps"}},
       make_hyperband_scheduler},
      {{"median",
        "cuts what is below the median of the others",
        {"grace_steps", "min_trials"}},
       make_median_scheduler},
      {{"fifo", "trains every trial to the end", {}}, make_fifo_scheduler},
  };
  return table;
}

template <typename Entry>
std::vector<NamedKind> kinds_of(const std::vector<Entry>& table) {
  std::vector<NamedKind> kinds;
  kinds.reserve(table.size());
  for (const Entry& entry : table) kinds.push_back(entry.kind);
  return kinds;
}

bool is_among(const std::vector<NamedKind>& kinds, const std::string& name) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const NamedKind& kind) { return kind.name == name; });
}

// The key that takes such a word, where it is not `what`; "" where none does.
std::string other_key(const char* what, const std::string& name) {
  for (const auto& [key, kinds] :
       {std::pair{"sampler", &sampler_kinds()},
        std::pair{"scheduler", &scheduler_kinds()}}) {
    if (key != std::string(what) && is_among(*kinds, name)) return key;
  }
  return "";
}

template <typename Entry>
const Entry& find_entry(const std::vector<Entry>& table, const char* what,
                        const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : table) {
    if (entry.kind.name == name) return entry;
    names.push_back(entry.kind.name);
  }
  const std::string other = other_key(what, name);
  throw Error(
      ErrorKind::config,
      other.empty()
          ? fmt::format("{0}.kind: unknown {0} '{1}'{2} (one of {3})", what,
                        name, did_you_mean(name, names), fmt::join(names, ", "))
          : fmt::format("{0}.kind: '{1}' is no {0}, but a {2} (write {2}: "
                        "{1}; {0} is one of {3})",
                        what, name, other, fmt::join(names, ", ")));
}

// The kinds that have the option.
template <typename Entry>
std::vector<std::string> kinds_with(const std::vector<Entry>& table,
                                    const std::string& option) {
  std::vector<std::string> kinds;
  for (const Entry& entry : table) {
    const auto& all = entry.kind.options;
    const bool has = std::find(all.begin(), all.end(), option) != all.end();
    if (has) kinds.push_back(entry.kind.name);
  }
  return kinds;
}

// Throws Error(config) on an option that the kind does not have, with "did you
// mean", or with the kinds that have it.
template <typename Entry>
void check_options(const std::vector<Entry>& table, const char* what,
                   const NamedKind& kind,
                   const std::map<std::string, Value>& options) {
  for (const auto& [name, value] : options) {
    const std::vector<std::string>& own = kind.options;
    if (std::find(own.begin(), own.end(), name) != own.end()) continue;
    const std::vector<std::string> others = kinds_with(table, name);
    std::string takes =
        own.empty() ? "no options" : fmt::format("{}", fmt::join(own, ", "));
    if (!others.empty()) {
      takes += fmt::format("; {} is of {} {}: for it write kind: {}", name,
                           what, fmt::join(others, ", "), others.front());
    }
    throw Error(ErrorKind::config,
                fmt::format("{}.{}: unknown option{} ('{}' takes {})", what,
                            name, did_you_mean(name, own), kind.name, takes));
  }
}

// Of the warm start, of all its studies together: a fit's time is the cube.
constexpr size_t kMostWarm = 200;
constexpr size_t kMostWarmOfOne = 100;

void add_warm(const Recipe& recipe, const std::vector<WarmStudy>& studies,
              SurrogateParts& parts) {
  for (const WarmStudy& old : studies) {
    check_warm_study(recipe, old);
    const size_t most = std::min(kMostWarmOfOne, kMostWarm / studies.size());
    auto observations =
        warm_observations(recipe, old, std::max<size_t>(most, 1));
    if (!observations.empty()) parts.warm.push_back(std::move(observations));
  }
}

// Points that suit most of a few data sets suit another by chance: with a prior
// of CNNs that was learnt from five, half a minute of recipes/fashion-mnist.yaml
// ended at 88.6% in place of 91%. As many as there are slots are begun at once;
// beyond some they add little to what the first ones cover.
constexpr size_t kOpeningTasks = 10;
constexpr size_t kMostOpening = 16;
bool has_opening(const Recipe& recipe, const TunerOptions& options,
                 const LearntPrior& prior) {
  const std::set<std::string> tasks(prior.tasks().begin(), prior.tasks().end());
  if (tasks.size() < kOpeningTasks) return false;
  const auto& entry = find_entry(samplers(), "sampler", recipe.sampler.kind);
  return entry.make == nullptr && options.warm.empty() &&
         Prior(recipe.space).empty();
}

// So many get two steps of the ladder each before anything is compared. Chosen
// on eight tasks of LCBench (tests/README.md); studies of few steps gain nothing
// by it, nor do programs that say nothing before their end.
size_t opening_points(int horizon) {
  constexpr size_t kOpeningPoints = 5;
  return horizon > kShortHorizon && horizon < kOpenHorizon ? kOpeningPoints : 0;
}

// The members of the model that a sampler's kind names; others get all.
std::shared_ptr<SurrogateModel> make_model(const Recipe& recipe, int horizon,
                                           const TunerOptions& options) {
  SurrogateParts parts;
  const std::string& kind = recipe.sampler.kind;
  parts.why_unlearnt = why_unlearnt(recipe);
  if (kind != "plain-gp" && parts.why_unlearnt.empty()) {
    const LearntPrior& prior =
        options.prior != nullptr ? *options.prior : shipped_prior_for(recipe);
    parts.prior = std::make_shared<const CubePrior>(
        prior.condition(context_of(recipe), options.leave_out));
    if (has_opening(recipe, options, prior)) {
      parts.opening =
          prior.opening(context_of(recipe), options.leave_out, kMostOpening);
      parts.opening_points = opening_points(horizon);
    }
    parts.plain = kind != "learnt-gp";
    if (kind != "learnt-gp" && !options.without_network) {
      parts.network = options.network;
      if (parts.network == nullptr) {
        // It lives as long as the process: nothing owns it.
        parts.network = {std::shared_ptr<void>(), &shipped_network_for(recipe)};
      }
    }
  }
  add_warm(recipe, options.warm, parts);
  return std::make_shared<SurrogateModel>(recipe, horizon, std::move(parts));
}

std::unique_ptr<Sampler> make(const SamplerEntry& entry, const Recipe& recipe,
                              std::shared_ptr<SurrogateModel> model) {
  check_options(samplers(), "sampler", entry.kind, recipe.sampler.options);
  std::unique_ptr<Sampler> sampler =
      entry.make != nullptr ? entry.make(recipe)
                            : make_surrogate_sampler(recipe, std::move(model));
  if (recipe.points.empty()) return sampler;
  return make_listed_sampler(std::move(sampler));
}

std::unique_ptr<Scheduler> make(const SchedulerEntry& entry,
                                const Recipe& recipe, int horizon,
                                std::shared_ptr<SurrogateModel> model) {
  check_options(schedulers(), "scheduler", entry.kind,
                recipe.scheduler.options);
  if (entry.make != nullptr) return entry.make(recipe, horizon);
  return make_freeze_thaw_scheduler(recipe, std::move(model));
}

}  // namespace

const std::vector<NamedKind>& sampler_kinds() {
  static const std::vector<NamedKind> kinds = kinds_of(samplers());
  return kinds;
}

const std::vector<NamedKind>& scheduler_kinds() {
  static const std::vector<NamedKind> kinds = kinds_of(schedulers());
  return kinds;
}

Tuner make_tuner(const Recipe& recipe, int horizon,
                 const TunerOptions& options) {
  const SamplerEntry& sampler =
      find_entry(samplers(), "sampler", recipe.sampler.kind);
  const SchedulerEntry& scheduler =
      find_entry(schedulers(), "scheduler", recipe.scheduler.kind);
  std::shared_ptr<SurrogateModel> model;
  if (sampler.make == nullptr || scheduler.make == nullptr) {
    model = make_model(recipe, horizon, options);
  }
  if (model == nullptr && !recipe.warm_start.empty()) {
    throw Error(ErrorKind::config,
                fmt::format("warm_start: has no effect with sampler {} and "
                            "scheduler {} (remove it, or take sampler "
                            "convlstm)",
                            sampler.kind.name, scheduler.kind.name));
  }
  return {make(sampler, recipe, model),
          make(scheduler, recipe, horizon, model)};
}

std::unique_ptr<Sampler> make_sampler(const Recipe& recipe, int horizon) {
  const SamplerEntry& entry =
      find_entry(samplers(), "sampler", recipe.sampler.kind);
  return make(
      entry, recipe,
      entry.make == nullptr ? make_model(recipe, horizon, {}) : nullptr);
}

std::unique_ptr<Scheduler> make_scheduler(const Recipe& recipe, int horizon) {
  const SchedulerEntry& entry =
      find_entry(schedulers(), "scheduler", recipe.scheduler.kind);
  return make(
      entry, recipe, horizon,
      entry.make == nullptr ? make_model(recipe, horizon, {}) : nullptr);
}

}  // namespace dtune
