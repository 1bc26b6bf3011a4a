#include "dtune/config/check.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/text.h"
#include "dtune/config/check_context.h"
#include "dtune/config/schema.h"
#include "dtune/config/sugar.h"
#include "dtune/study/kubernetes_address.h"
#include "dtune/study/node_address.h"
#include "dtune/study/slots.h"
#include "dtune/study/slurm_address.h"
#include "dtune/study/study.h"

namespace dtune {
namespace {

// A word that decides which other keys of its section count was not
// understood: then nothing can be said about those.
bool is_undecided(const CheckContext& c, const std::string& section) {
  for (const char* key : {".mode", ".sync", ".kind", ".arch"}) {
    if (c.is_misread(section + key)) return true;
  }
  return false;
}

// It names files and processes.
void check_study_name(const CheckContext& c) {
  const std::string& name = c.recipe.study;
  const bool good = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                    name[0] != '-' && is_plain(name, "_-.");
  if (!good) {
    c.complain("study",
               "'study' must be a name of 1 to 64 letters, digits, "
               "'_', '-' and '.'");
  }
}

void check_limits(const CheckContext& c) {
  const LimitsSpec& limits = c.recipe.limits;
  if (limits.heartbeat <= Duration(0)) {
    c.complain("limits.heartbeat", "'limits.heartbeat' must be more than 0");
  } else if (limits.lease < 2 * limits.heartbeat) {
    c.complain("limits.lease",
               "'limits.lease' must be at least two heartbeats, or a slot is "
               "lost by one late message");
  }
}

void check_warm_start(const CheckContext& c) {
  const YamlNode* list = c.tree.find("warm_start");
  if (list == nullptr) return;
  std::set<std::string> paths;
  for (size_t i = 0; i < c.recipe.warm_start.size(); ++i) {
    const std::string& path = c.recipe.warm_start[i];
    const Mark mark = i < list->items.size() ? list->items[i].mark : list->mark;
    if (path.empty()) {
      c.diagnostics.add(mark,
                        "'warm_start' has an empty name (name the .db file "
                        "of a study)");
    } else if (!paths.insert(path).second) {
      c.diagnostics.add(mark, fmt::format("'warm_start' names {} twice", path));
    }
  }
  if (!paths.contains(kRelatedStudies)) return;
  if (paths.size() > 1) {
    c.complain("warm_start",
               "'warm_start: auto' finds the studies by itself (leave the "
               "other names out, or 'auto')");
  } else if (c.recipe.deterministic) {
    c.complain("warm_start",
               "'warm_start: auto' depends on what this machine has run "
               "before, so that a deterministic study would not repeat "
               "elsewhere (name the databases)");
  }
}

bool is_cube_key(const std::string& key) {
  return key == "train.lr" || key == "train.l2" || key == "model.dropout";
}

// Of a parameter that is not read as a number, nothing recorded can say
// anything; a coordinate has one parameter, unless conditions choose it.
void check_roles(const CheckContext& c) {
  std::set<ParameterRole> taken;
  for (const Parameter& p : c.recipe.space.parameters()) {
    if (p.role == ParameterRole::none) continue;
    const std::string key = "space." + p.name + ".role";
    const bool numbers =
        p.kind == ParameterKind::real || p.kind == ParameterKind::integer ||
        (p.kind == ParameterKind::categorical &&
         std::all_of(p.choices.begin(), p.choices.end(),
                     [](const Value& v) { return as_number(v); }));
    if (!numbers) {
      c.complain(key, fmt::format("'{}' is not a number, so it cannot be {}",
                                  p.name, to_string(p.role)));
    } else if (is_cube_key(p.key)) {
      c.complain(key, fmt::format("'{}' has no effect: {} says what the "
                                  "parameter is (remove it)",
                                  key, p.key));
    } else if (p.when.empty() && !taken.insert(p.role).second) {
      c.complain(key, fmt::format("two parameters are the {} (keep one role)",
                                  to_string(p.role)));
    }
  }
}

void check_stop(const CheckContext& c) {
  const bool given = find_path(c.tree, "stop.chance") != nullptr;
  if (!given || c.recipe.stop.gain > 0 || !c.is_fresh("stop.chance")) return;
  c.complain("stop.chance",
             "'stop.chance' needs a gain: what more budget is to be worth "
             "(stop: { gain: 0.001 })");
}

// That start agents for `nodes:`.
const std::array<std::string, 3> kEngines = {"ssh", "slurm", "k8s"};

std::string problem_of_node(const std::string& address, bool local) {
  if (address == "local") {
    return local ? "'nodes' names local twice (keep one; its slots=N are all "
                   "that this machine gives)"
                 : "";
  }
  try {
    if (!is_engine_address(address) || address.starts_with("ssh://")) {
      parse_ssh_address(address);
      return "";
    }
    const EngineAddress engine = parse_engine_address(address);
    check_engine(engine, kEngines);
    if (engine.engine == "k8s") {
      check_kubernetes_address(engine);
    } else {
      check_slurm_address(engine);
    }
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

void check_nodes(const CheckContext& c) {
  const YamlNode* list = c.tree.find("nodes");
  bool local = false;
  for (size_t i = 0; i < c.recipe.nodes.size(); ++i) {
    const Mark mark = list != nullptr && i < list->items.size()
                          ? list->items[i].mark
                          : mark_of_path(c.tree, "nodes");
    if (!c.diagnostics.sources().is_fresh(mark)) continue;
    const std::string& address = c.recipe.nodes[i].address;
    const std::string problem = problem_of_node(address, local);
    if (!problem.empty()) c.diagnostics.add(mark, problem);
    local = local || address == "local";
  }
}

void check_fused(const CheckContext& c) {
  const int fused = c.recipe.resources.fused;
  if (fused < 0) {
    c.complain("resources.fused",
               fmt::format("'resources.fused' must be auto, off or 2 to {}",
                           kMostFused));
  }
  if (fused < 2) return;
  const int64_t slots = std::max(c.recipe.resources.slots, 1);
  if (slots * fused > kMaxSlots) {
    c.complain("resources.fused",
               fmt::format("{} slots of {} fused trials are more than {}",
                           slots, fused, kMaxSlots));
  }
  if (c.recipe.command) {
    c.complain("resources.fused",
               "'resources.fused' is for networks that dtune trains; commands "
               "run one in a slot (remove it, or raise resources.slots)");
  } else if (c.recipe.parallel.mode != ParallelMode::none) {
    c.complain("resources.fused",
               "'resources.fused' puts several trials into one process, "
               "'parallel' one trial into several (use one of them)");
  } else if (c.recipe.deterministic) {
    c.complain("resources.fused",
               "'resources.fused' rounds a trial's sums by what is trained "
               "beside it, so results do not repeat to the last bit (remove "
               "it, or deterministic: true)");
  }
}

// Steps that are trainings of their own on more and more images.
void check_fidelity(const CheckContext& c) {
  if (!trains_levels(c.recipe)) return;
  if (c.recipe.command) {
    c.complain("fidelity",
               "'fidelity' cannot be used together with 'command' (the program "
               "itself can train on more data in each step: DTUNE_STEP says "
               "how many were reported)");
    return;
  }
  constexpr const char* kWhy =
      "'fidelity: data.limit' trains every step of a trial from the start, "
      "which '{}' cannot do (remove one of the two)";
  if (c.recipe.parallel.mode != ParallelMode::none) {
    c.complain("parallel", fmt::format(kWhy, "parallel"));
  }
  if (c.recipe.resources.fused != 1) {
    c.complain("resources.fused", fmt::format(kWhy, "resources.fused"));
  }
  if (c.recipe.scheduler.kind == "fifo") {
    c.complain("fidelity",
               "'fidelity: data.limit' saves nothing with scheduler fifo, "
               "which trains every trial to its last step (take scheduler "
               "asha or freeze-thaw)");
  }
}

void check_parallel(const CheckContext& c) {
  const ParallelSpec& parallel = c.recipe.parallel;
  if (parallel.mode == ParallelMode::none) {
    const bool asked = parallel.ranks > 1 && c.is_fresh("parallel.ranks");
    if (asked && !c.is_misread("parallel.mode")) {
      c.complain("parallel",
                 "'parallel' needs a mode (data: every rank has the whole "
                 "network; model: each has some layers)");
    }
    return;
  }
  if (c.recipe.command) {
    c.complain("parallel",
               "'parallel' cannot be used together with 'command' (the program "
               "trains "
               "by itself)");
    return;
  }
  if (parallel.mode != ParallelMode::model &&
      c.recipe.train.batch_size < parallel.ranks) {
    c.complain("train.batch_size",
               fmt::format("a batch of {} cannot be shared by {} ranks "
                           "(a larger batch_size, or fewer ranks)",
                           c.recipe.train.batch_size, parallel.ranks));
  }
  const bool follows_clock = parallel.mode == ParallelMode::data &&
                             parallel.sync == SyncKind::ps &&
                             parallel.ps.consistency != Consistency::sync;
  if (c.recipe.deterministic && follows_clock &&
      c.is_fresh("parallel.ps.consistency")) {
    c.complain(
        "parallel.ps.consistency",
        "the result of ssp and async depends on the speed of the workers; "
        "'deterministic' needs parallel.ps.consistency: sync");
  }
  const int micros = parallel.pipeline.micro_batches;
  if (micros > c.recipe.train.batch_size) {
    c.complain("parallel.pipeline.micro_batches",
               fmt::format("a batch of {} cannot be cut into {} micro-batches",
                           c.recipe.train.batch_size, micros));
  }
}

}  // namespace

void check_recipe(const YamlNode& tree, const Recipe& recipe,
                  Diagnostics& diagnostics) {
  const CheckContext c{tree, recipe, diagnostics};
  check_study_name(c);
  check_limits(c);
  check_warm_start(c);
  check_roles(c);
  check_stop(c);
  check_nodes(c);
  check_parallel(c);
  check_fused(c);
  check_fidelity(c);
  if (recipe.command) {
    check_command(c);
    return;
  }
  check_training(c);
  check_model(c);
}

void check_idle_keys(const YamlNode& tree, const Recipe& recipe,
                     const std::vector<std::string>& tuned,
                     Diagnostics& diagnostics) {
  const CheckContext c{tree, recipe, diagnostics};
  const auto is_tuned = [&](const std::string& key) {
    return std::find(tuned.begin(), tuned.end(), key) != tuned.end();
  };
  for (const IdleKey& idle : idle_keys(recipe)) {
    if (idle.key == "model.depth" && is_tuned("model.arch")) continue;
    const std::string section = idle.key.substr(0, idle.key.find('.'));
    if (is_undecided(c, section)) continue;
    const YamlNode* node = tree.find(section);
    const YamlNode* found =
        node != nullptr ? node->find(idle.key.substr(section.size() + 1))
                        : nullptr;
    if (found == nullptr || !diagnostics.sources().is_fresh(found->mark)) {
      continue;
    }
    diagnostics.add(found->key_mark, fmt::format("'{}' has no effect: {} "
                                                 "(remove it)",
                                                 idle.key, idle.reason));
  }
}

}  // namespace dtune
