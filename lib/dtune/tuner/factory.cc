#include "dtune/tuner/factory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/tuner/samplers.h"
#include "dtune/tuner/schedulers.h"

namespace dtune {
namespace {

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
      {{"sobol", "scrambled Sobol points: random, but evenly spread"},
       make_sobol_sampler},
      {{"halton", "scrambled Halton points, for many parameters"},
       make_halton_sampler},
      {{"random", "independent random points"}, make_random_sampler},
      {{"gp", "Gaussian process, log expected improvement (option: startup)"},
       make_gp_sampler},
      {{"grid", "every combination (options: points, order)"},
       make_grid_sampler},
  };
  return table;
}

const std::vector<SchedulerEntry>& schedulers() {
  static const std::vector<SchedulerEntry> table = {
      {{"asha",
        "pauses all but the best 1/eta at each rung (options: mode, "
        "eta, min_steps)"},
       make_asha_scheduler},
      {{"median",
        "cuts what is below the median of the others (options: "
        "grace_steps, min_trials)"},
       make_median_scheduler},
      {{"fifo", "trains every trial to the end"}, make_fifo_scheduler},
  };
  return table;
}

template <typename Entry>
std::vector<NamedKind> kinds_of(const std::vector<Entry>& table) {
  std::vector<NamedKind> kinds;
  for (const Entry& entry : table) kinds.push_back(entry.kind);
  return kinds;
}

template <typename Entry>
const Entry& find_entry(const std::vector<Entry>& table, const char* what,
                        const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : table) {
    if (entry.kind.name == name) return entry;
    names.push_back(entry.kind.name);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("{0}.kind: unknown {0} '{1}'{2} (one of {3})", what, name,
                  did_you_mean(name, names), fmt::join(names, ", ")));
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

std::unique_ptr<Sampler> make_sampler(const Recipe& recipe) {
  return find_entry(samplers(), "sampler", recipe.sampler.kind).make(recipe);
}

std::unique_ptr<Scheduler> make_scheduler(const Recipe& recipe, int horizon) {
  return find_entry(schedulers(), "scheduler", recipe.scheduler.kind)
      .make(recipe, horizon);
}

}  // namespace dtune
