// "did you mean" for keys, with what other programs call the same things.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/config/reader.h"

namespace dtune {
namespace {

constexpr std::pair<const char*, const char*> kElsewhere[] = {
    {"learning_rate", "train.lr"},
    {"weight_decay", "train.l2"},
    {"decay", "train.l2"},
    {"wd", "train.l2"},
    {"batch", "train.batch_size"},
    {"bs", "train.batch_size"},
    {"epoch", "train.epochs"},
    {"max_epochs", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"optim", "train.optimizer"},
    {"optimiser", "train.optimizer"},
    {"lr_scheduler", "train.schedule"},
    {"dropout_rate", "model.dropout"},
    {"p_dropout", "model.dropout"},
    {"architecture", "model.arch"},
    {"network", "model.arch"},
    {"dataset", "data.kind"},
    {"type", "data.kind"},
    {"root", "data.path"},
    {"file", "data.path"},
    {"val", "data.validation"},
    {"image_size", "data.size"},
    {"augmentation", "data.augment"},
    {"name", "study"},
    {"search_space", "space"},
    {"parameters", "space"},
    {"params", "space"},
    {"program", "command"},
    {"direction", "objective.goal"},
    {"mode", "objective.goal"},
    {"metric", "objective.metric"},
    {"pruner", "scheduler"},
    {"n_trials", "budget.trials"},
    {"max_trials", "budget.trials"},
    {"num_samples", "budget.trials"},
    {"timeout", "budget.time"},
    {"max_time", "budget.time"},
    {"workers", "resources.slots"},
    {"n_jobs", "resources.slots"},
    {"num_workers", "resources.slots"},
    {"parallelism", "resources.slots"},
    {"threads", "resources.threads_per_slot"},
    {"assert", "expect"},
    {"transfer", "warm_start"},
    {"previous_studies", "warm_start"},
};

std::string last_part(const std::string& dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

std::string parent(const std::string& dotted) {
  const size_t dot = dotted.rfind('.');
  return dot == std::string::npos ? "" : dotted.substr(0, dot);
}

// How the key `dotted` is called in messages of the section `path`.
std::string seen_from(const std::string& path, const std::string& dotted) {
  return parent(dotted) == path ? last_part(dotted) : dotted;
}

}  // namespace

std::string key_elsewhere(const std::string& name) {
  for (const auto& [theirs, ours] : kElsewhere) {
    if (name == theirs) return ours;
  }
  return "";
}

std::string key_hint(const std::string& key,
                     const std::vector<std::string>& known,
                     const std::string& path,
                     const std::vector<std::string>& all_keys) {
  std::string near_here = did_you_mean(key, known);
  if (!near_here.empty()) return near_here;

  for (const std::string& other : all_keys) {
    if (last_part(other) == key && parent(other) != path) {
      return fmt::format(", did you mean '{}'?", other);
    }
  }
  std::vector<std::string> foreign;
  for (const auto& [name, ours] : kElsewhere) foreign.emplace_back(name);
  const std::string like = nearest(key, foreign);
  for (const auto& [name, ours] : kElsewhere) {
    if (like == name) {
      return fmt::format(", did you mean '{}'?", seen_from(path, ours));
    }
  }
  if (known.empty()) return "";
  std::string names;
  for (const std::string& name : known) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return fmt::format(" (known here: {})", names);
}

}  // namespace dtune
