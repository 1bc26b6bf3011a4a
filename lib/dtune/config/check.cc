#include "dtune/config/check.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/config/path.h"
#include "dtune/config/schema.h"
#include "dtune/study/command_words.h"
#include "dtune/study/data_shape.h"
#include "dtune/study/metrics.h"
#include "dtune/study/node_address.h"

namespace dtune {
namespace {

// What stands at the key was not understood; the recipe has a default there.
bool is_misread(const YamlNode& tree, const std::string& key,
                const Diagnostics& diagnostics) {
  const YamlNode* found = find_path(tree, key);
  return found != nullptr && diagnostics.tells_of(found->mark);
}

// A word that decides which other keys of its section count was not
// understood: then nothing can be said about those.
bool is_undecided(const YamlNode& tree, const std::string& section,
                  const Diagnostics& diagnostics) {
  for (const char* key : {".mode", ".sync", ".kind", ".arch"}) {
    if (is_misread(tree, section + key, diagnostics)) return true;
  }
  return false;
}

class Checker {
 public:
  Checker(const YamlNode& tree, const Recipe& recipe, Diagnostics& diagnostics)
      : tree_(tree), recipe_(recipe), diagnostics_(diagnostics) {}

  void check_all() {
    check_study_name();
    check_limits();
    check_warm_start();
    check_nodes();
    check_parallel();
    if (recipe_.command) {
      check_command();
      return;
    }
    check_data();
    check_train();
    check_objective();
    check_model();
  }

 private:
  bool is_fresh(const std::string& key) const {
    return diagnostics_.sources().is_fresh(mark_of_path(tree_, key));
  }

  void complain(const std::string& key, const std::string& message) {
    diagnostics_.add(mark_of_path(tree_, key), message);
  }

  // It names files and processes.
  void check_study_name() {
    const std::string& name = recipe_.study;
    const auto fits = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    };
    const bool good = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                      name[0] != '-' &&
                      std::all_of(name.begin(), name.end(), fits);
    if (!good) {
      complain("study",
               "'study' must be a name of 1 to 64 letters, digits, "
               "'_', '-' and '.'");
    }
  }

  void check_limits() {
    const LimitsSpec& limits = recipe_.limits;
    if (limits.heartbeat <= Duration(0)) {
      complain("limits.heartbeat", "'limits.heartbeat' must be more than 0");
    } else if (limits.lease < 2 * limits.heartbeat) {
      complain("limits.lease",
               "'limits.lease' must be at least two heartbeats, or a slot is "
               "lost by one late message");
    }
  }

  void check_warm_start() {
    const YamlNode* list = tree_.find("warm_start");
    if (list == nullptr) return;
    std::set<std::string> paths;
    for (size_t i = 0; i < recipe_.warm_start.size(); ++i) {
      const std::string& path = recipe_.warm_start[i];
      const Mark mark =
          i < list->items.size() ? list->items[i].mark : list->mark;
      if (path.empty()) {
        diagnostics_.add(mark,
                         "'warm_start' has an empty name (name the .db file "
                         "of a study)");
      } else if (!paths.insert(path).second) {
        diagnostics_.add(mark,
                         fmt::format("'warm_start' names {} twice", path));
      }
    }
  }

  void check_nodes() {
    const YamlNode* list = tree_.find("nodes");
    bool local = false;
    for (size_t i = 0; i < recipe_.nodes.size(); ++i) {
      const Mark mark = list != nullptr && i < list->items.size()
                            ? list->items[i].mark
                            : mark_of_path(tree_, "nodes");
      if (!diagnostics_.sources().is_fresh(mark)) continue;
      const std::string& address = recipe_.nodes[i].address;
      const std::string problem = problem_of_node(address, local);
      if (!problem.empty()) diagnostics_.add(mark, problem);
      local = local || address == "local";
    }
  }

  static std::string problem_of_node(const std::string& address, bool local) {
    if (address == "local") {
      return local ? "'nodes' names local twice (keep one; its slots=N are all "
                     "that this machine gives)"
                   : "";
    }
    try {
      parse_ssh_address(address);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  void check_parallel() {
    const ParallelSpec& parallel = recipe_.parallel;
    if (parallel.mode == ParallelMode::none) {
      const bool asked = parallel.ranks > 1 && is_fresh("parallel.ranks");
      if (asked && !is_misread(tree_, "parallel.mode", diagnostics_)) {
        complain("parallel",
                 "'parallel' needs a mode (data: every rank has the whole "
                 "network; model: each has some layers)");
      }
      return;
    }
    if (recipe_.command) {
      complain("parallel",
               "'parallel' cannot be used together with 'command' (the program "
               "trains "
               "by itself)");
      return;
    }
    if (parallel.mode != ParallelMode::model &&
        recipe_.train.batch_size < parallel.ranks) {
      complain("train.batch_size",
               fmt::format("a batch of {} cannot be shared by {} ranks "
                           "(a larger batch_size, or fewer ranks)",
                           recipe_.train.batch_size, parallel.ranks));
    }
    const bool follows_clock = parallel.mode == ParallelMode::data &&
                               parallel.sync == SyncKind::ps &&
                               parallel.ps.consistency != Consistency::sync;
    if (recipe_.deterministic && follows_clock &&
        is_fresh("parallel.ps.consistency")) {
      complain(
          "parallel.ps.consistency",
          "the result of ssp and async depends on the speed of the workers; "
          "'deterministic' needs parallel.ps.consistency: sync");
    }
    const int micros = parallel.pipeline.micro_batches;
    if (micros > recipe_.train.batch_size) {
      complain("parallel.pipeline.micro_batches",
               fmt::format("a batch of {} cannot be cut into {} micro-batches",
                           recipe_.train.batch_size, micros));
    }
  }

  void check_command() {
    if (recipe_.command->argv.empty() || recipe_.command->argv[0].empty()) {
      complain("command",
               "'command' names no program (write command: python "
               "train.py --lr {lr})");
    }
    for (const char* section : {"data", "model", "train"}) {
      const YamlNode* found = tree_.find(section);
      if (found == nullptr) continue;
      diagnostics_.add(
          found->key_mark,
          fmt::format("'{}' cannot be used together with 'command' (the "
                      "program trains; remove one of the two)",
                      section));
    }
    for (const std::string& word : recipe_.command->argv) {
      check_placeholders(word);
      check_conditions(word);
    }
  }

  // A word about a parameter that a point does not have is left out: of a
  // shell's script, which is one word, nothing would remain.
  void check_conditions(const std::string& word) {
    if (word.find_first_of(" \t\n") == std::string::npos) return;
    if (!is_fresh("command.run")) return;
    for (const Parameter& parameter : recipe_.space.parameters()) {
      const std::string mark = "{" + parameter.name + "}";
      if (parameter.when.empty() || word.find(mark) == std::string::npos) {
        continue;
      }
      std::string variable =
          point_environment({{parameter.name, 0.0}}).begin()->first;
      complain("command.run",
               fmt::format("the command's {0} is a part of a longer word, all "
                           "of which is left out where '{1}' does not apply "
                           "(make {0} a word of its own, or use ${2})",
                           mark, parameter.name, variable));
    }
  }

  // "{lrr}" that is nearly a parameter is a slip; other braces are the
  // program's own business.
  void check_placeholders(const std::string& word) {
    std::vector<std::string> names;
    for (const Parameter& parameter : recipe_.space.parameters()) {
      names.push_back(parameter.name);
    }
    size_t open = 0;
    while ((open = word.find('{', open)) != std::string::npos) {
      const size_t close = word.find('}', open);
      if (close == std::string::npos) return;
      const std::string name = word.substr(open + 1, close - open - 1);
      const std::string hint = did_you_mean(name, names);
      const bool known =
          std::find(names.begin(), names.end(), name) != names.end();
      if (!known && !hint.empty()) {
        complain("command.run",
                 fmt::format("the command's {{{}}} is not a parameter{}", name,
                             hint));
      }
      open = close;
    }
  }

  void check_data() {
    const DataSpec& data = recipe_.data;
    const bool needs_path =
        data.kind == DataKind::npz || data.kind == DataKind::folder;
    if (needs_path && data.path.empty()) {
      complain("data", fmt::format("kind: {} needs a path (data.path: the {})",
                                   to_string(data.kind),
                                   data.kind == DataKind::npz
                                       ? ".npz file"
                                       : "folder of class folders"));
    }
    if ((data.height == 0) != (data.width == 0)) {
      complain("data.size",
               "'data.size' must be [height, width], both more "
               "than 0");
    }
    for (const auto& [key, share] :
         {std::pair("data.validation", data.validation),
          std::pair("data.test", data.test)}) {
      if (share > 1 && share != static_cast<double>(int64_t(share))) {
        complain(key, fmt::format("'{}' must be a share below 1 or a whole "
                                  "number of samples",
                                  key));
      }
    }
    if (data.kind != DataKind::npz && data.validation == 0) {
      complain("data.validation",
               "'data.validation' must be more than 0: without a validation "
               "split nothing can be compared");
    }
  }

  void check_train() {
    const TrainSpec& train = recipe_.train;
    const ScheduleSpec& schedule = train.schedule;
    if (schedule.kind == ScheduleKind::step && schedule.milestones.empty()) {
      complain("train.schedule",
               "schedule: step needs the epochs at which the rate falls "
               "(milestones: [6, 9])");
    }
    if (!std::is_sorted(schedule.milestones.begin(),
                        schedule.milestones.end())) {
      complain("train.schedule.milestones",
               "'train.schedule.milestones' must rise");
    }
    if (train.nesterov && train.momentum == 0) {
      complain("train.nesterov", "nesterov needs a momentum above 0");
    }
    const std::string& device = train.device;
    const bool numbered =
        device.starts_with("cuda:") && device.size() > 5 &&
        device.size() <= 8 &&
        std::all_of(device.begin() + 5, device.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; });
    if (device != "auto" && device != "cpu" && device != "cuda" && !numbered) {
      complain("train.device",
               fmt::format("'train.device' must be one of auto, cpu, cuda, "
                           "cuda:0, cuda:1, ..., but is '{}'",
                           device));
    }
  }

  void check_objective() {
    const auto& known = step_metrics();
    const std::string& metric = recipe_.objective.metric;
    if (std::find(known.begin(), known.end(), metric) != known.end()) return;
    if (metric.starts_with("test_")) {
      complain("objective.metric",
               fmt::format("'{}' cannot be the objective: the test split is "
                           "evaluated once, at the end (use val_{})",
                           metric, metric.substr(5)));
      return;
    }
    const std::string hint = did_you_mean(metric, known);
    std::string list;
    for (const std::string& one : known) {
      list += (list.empty() ? "" : ", ") + one;
    }
    complain("objective.metric",
             fmt::format("unknown metric '{}'{}", metric,
                         hint.empty() ? " (known: " + list + ")" : hint));
  }

  // They name weights, and stand in dotted keys.
  void check_layer_names(const std::vector<LayerSpec>& layers) {
    const auto fits = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-';
    };
    for (const LayerSpec& layer : layers) {
      const std::string& name = layer.name;
      const bool good = !name.empty() && name.size() <= 64 &&
                        std::all_of(name.begin(), name.end(), fits);
      if (!good) {
        diagnostics_.add(layer.where, mark_of_layer(layer),
                         "a layer's name is 1 to 64 letters, digits, '_' and "
                         "'-'");
      }
      check_layer_names(layer.body);
      check_layer_names(layer.shortcut);
    }
  }

  // Expands the model and follows the shapes, as far as they are known
  // without the data.
  void check_model() {
    const YamlNode* layers_node = find_path(tree_, "model.layers");
    if (layers_node != nullptr && layers_node->items.empty()) {
      complain("model.layers",
               "'layers' is empty (list some, or name an arch)");
      return;
    }
    check_layer_names(recipe_.model.layers);
    DataShape shape = known_data_shape(recipe_.data);
    const bool known = shape.image.channels > 0;
    if (!known) shape.image = {.channels = 3, .height = 224, .width = 224};
    // A list of layers may get one more, for the classes.
    const bool counts_layers =
        known && (shape.classes > 0 || recipe_.model.layers.empty());
    if (shape.classes == 0) shape.classes = 2;
    try {
      const auto layers =
          expand_model(recipe_.model, shape.image, shape.classes);
      if (known) infer_shapes(layers, shape.image);
      if (counts_layers) check_stages(layers.size());
    } catch (const Error& error) {
      add_model_error(error.what());
    }
  }

  // A study that was stored with too many stages can still be looked at.
  void check_stages(size_t layers) {
    const auto problem = find_stage_problem(recipe_, layers);
    if (!problem || is_misread(tree_, "model.arch", diagnostics_)) return;
    if (!is_fresh(problem->key) && !is_fresh("parallel.mode")) return;
    complain(problem->key, problem->message);
  }

  // Texts of layers begin with their place.
  void add_model_error(const std::string& text) {
    std::vector<const LayerSpec*> layers;
    collect(recipe_.model.layers, layers);
    for (const LayerSpec* layer : layers) {
      const std::string head = layer->where + ": ";
      if (layer->where.empty() || !text.starts_with(head)) continue;
      diagnostics_.add(layer->where, mark_of_layer(*layer),
                       text.substr(head.size()));
      return;
    }
    for (const char* key : {"model.arch", "model.depth"}) {
      const std::string head = std::string(key) + ": ";
      if (!text.starts_with(head)) continue;
      complain(key, text.substr(head.size()));
      return;
    }
    complain("model", text);
  }

  static void collect(const std::vector<LayerSpec>& layers,
                      std::vector<const LayerSpec*>& all) {
    for (const LayerSpec& layer : layers) {
      all.push_back(&layer);
      collect(layer.body, all);
      collect(layer.shortcut, all);
    }
  }

  Mark mark_of_layer(const LayerSpec& layer) const {
    return mark_of_path(tree_, "model.layers." + layer.name + ".name");
  }

  const YamlNode& tree_;
  const Recipe& recipe_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_recipe(const YamlNode& tree, const Recipe& recipe,
                  Diagnostics& diagnostics) {
  Checker(tree, recipe, diagnostics).check_all();
}

void check_idle_keys(const YamlNode& tree, const Recipe& recipe,
                     const std::vector<std::string>& tuned,
                     Diagnostics& diagnostics) {
  const auto is_tuned = [&](const std::string& key) {
    return std::find(tuned.begin(), tuned.end(), key) != tuned.end();
  };
  for (const IdleKey& idle : idle_keys(recipe)) {
    if (idle.key == "model.depth" && is_tuned("model.arch")) continue;
    const std::string section = idle.key.substr(0, idle.key.find('.'));
    if (is_undecided(tree, section, diagnostics)) continue;
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

std::optional<StageProblem> find_stage_problem(const Recipe& recipe,
                                               size_t layers) {
  const ParallelSpec& parallel = recipe.parallel;
  const bool hybrid = parallel.mode == ParallelMode::hybrid;
  if (!hybrid && parallel.mode != ParallelMode::model) return std::nullopt;
  const auto stages =
      static_cast<size_t>(hybrid ? parallel.model : parallel.ranks);
  if (stages <= layers) return std::nullopt;
  for (const Parameter& parameter : recipe.space.parameters()) {
    const std::string& key = parameter.key;
    if (key == "model.arch" || key == "model.depth") return std::nullopt;
  }
  const char* key = hybrid ? "parallel.model" : "parallel.ranks";
  return StageProblem{
      key, fmt::format("'{}': {} stages are more than the model's {} layers "
                       "(at most {}, or a deeper model; a residual block "
                       "counts as one layer)",
                       key, stages, layers, layers)};
}

}  // namespace dtune
