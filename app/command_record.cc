// dtune record: trains a grid and writes its curves, for priors and
// simulations.

#include <array>
#include <charconv>
#include <memory>

#include "app/command.h"
#include "app/overrides.h"
#include "app/study_files.h"
#include "app/study_run.h"
#include "app/study_start.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/curves/curves_file.h"
#include "dtune/data/prepared.h"
#include "dtune/review/recording.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct RecordOptions {
  std::vector<std::string> sources;  // a recipe, or databases of its grid
  std::optional<uint64_t> repeats;
  std::string output;
  std::string points = "7,6,4";
  std::string epochs;
  std::vector<std::string> set;
  std::optional<uint64_t> slots;
  RunView view;
};

std::vector<int> parse_numbers(const std::string& option,
                               const std::string& text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 1 || (stop != end && *stop != ',')) {
      throw Error(
          ErrorKind::config,
          fmt::format("{}: '{}' is not a list of whole numbers from 1 on "
                      "(write e.g. {})",
                      option, text,
                      option == "--points" ? "13,11,7" : "1,2,4,8"));
    }
    numbers.push_back(number);
    if (stop == end) return numbers;
    at = stop + 1;
  }
}

// Along lr, l2 and dropout; one number stands for all three.
std::array<int, 3> parse_points(const std::string& text) {
  constexpr int kMost = 1000;
  const std::vector<int> numbers = parse_numbers("--points", text);
  const bool three = numbers.size() == 3;
  if ((!three && numbers.size() != 1) ||
      *std::max_element(numbers.begin(), numbers.end()) > kMost) {
    throw Error(ErrorKind::config,
                fmt::format("--points: '{}' must be one number or three, along "
                            "lr, l2 and dropout, of {} at most",
                            text, kMost));
  }
  return three ? std::array{numbers[0], numbers[1], numbers[2]}
               : std::array{numbers[0], numbers[0], numbers[0]};
}

std::vector<int> parse_epochs(const std::string& text, int horizon) {
  if (text.empty()) return default_epochs(horizon);
  std::vector<int> epochs = parse_numbers("--epochs", text);
  const bool rising =
      std::is_sorted(epochs.begin(), epochs.end(), std::less_equal<int>());
  if (!rising || epochs.back() > horizon) {
    throw Error(ErrorKind::config,
                fmt::format("--epochs: '{}' must rise, and end at {} at the "
                            "latest (a full training)",
                            text, horizon));
  }
  return epochs;
}

std::string yaml_list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    std::string number = fmt::format("{:.12g}", value);
    // "1e-05" and "0" are no reals in YAML; "1.0e-05" and "0.0" are.
    if (number.find('.') == std::string::npos) {
      const size_t exponent = number.find('e');
      number.insert(exponent == std::string::npos ? number.size() : exponent,
                    ".0");
    }
    text += (text.empty() ? "" : ", ") + number;
  }
  return "[" + text + "]";
}

// What makes a recipe the study that trains the grid: every combination to the
// horizon.
std::vector<Override> grid_overrides(const Recipe& recipe,
                                     const RecordOptions& options) {
  const CubeNames names = cube_names(recipe.space);
  const GridAxes axes =
      axes_of_space(recipe.space, names, parse_points(options.points));
  std::string space;
  const auto add = [&](const std::string& name,
                       const std::vector<double>& values) {
    const Parameter& parameter =
        recipe.space.parameters()[*recipe.space.find(name)];
    space += fmt::format(
        "{}{}: {{ {}choice: {} }}", space.empty() ? "" : ", ", name,
        recipe.command ? "" : fmt::format("key: {}, ", parameter.key),
        yaml_list(values));
  };
  add(names.lr, axes.lr);
  add(names.l2, axes.l2);
  add(names.dropout, axes.dropout);
  std::vector<Override> overrides = {
      {"space", "{ " + space + " }"},
      {"sampler", "{ kind: grid, order: shuffled }"},
      {"scheduler", "{ kind: fifo }"},
      {"budget", fmt::format("{{ trials: {} }}", axes.size())},
      {"expect", "{}"}};
  if (!recipe.command) overrides.push_back({"final", "{ enabled: false }"});
  return overrides;
}

// The database that keeps what a repeat trained, so that an interrupted
// recording goes on.
fs::path database_of(const fs::path& output, uint64_t repeat) {
  fs::path database = output;
  database.replace_extension();
  if (repeat > 1) database += fmt::format("-{}", repeat);
  database += ".db";
  return database;
}

// False: it was interrupted, or failed.
bool train_grid(const Console& console, const RecordOptions& options,
                const RecipeFile& file, const fs::path& path,
                const fs::path& database) {
  if (!holds_study(database)) {
    create_study(database, path, file, check_study(console, file, false));
  }
  {
    const LoadedStudy seen = load_study(database, StoreMode::read_only);
    if (seen.recipe.search_hash() != file.search_hash()) {
      throw Error(ErrorKind::config,
                  fmt::format("{0}: holds another grid (name another --output, "
                              "or remove {0})",
                              seen.facts.database));
    }
    if (seen.study.state == StudyState::finished) return true;
    if (!seen.study.trials.empty()) {
      console.notice(fmt::format("continuing the grid in {}: {}",
                                 seen.facts.database,
                                 describe_states(seen.study)));
    }
  }
  LoadedStudy loaded = load_study(database, StoreMode::open);
  loaded.study.recipe.resources = file.recipe().resources;
  return train_study(console, loaded, options.view).state ==
         StudyState::finished;
}

bool is_tuned(const Recipe& recipe, const std::string& key) {
  const auto& all = recipe.space.parameters();
  return std::any_of(all.begin(), all.end(),
                     [&](const Parameter& p) { return p.key == key; });
}

// What the recipe fixes beside the cube, and what guessing would reach.
void describe_training(const Console& console, const Recipe& recipe,
                       RecordingOptions& recording) {
  if (recipe.command) return;  // nothing is known of the program
  CubeContext& context = recording.context;
  const PreparedData data(prepare_recipe_data(console, recipe));
  recording.chance = 1.0 / data.classes();
  context.images = double(data.count(Split::train));
  if (!is_tuned(recipe, "train.optimizer")) {
    context.optimizer = to_string(recipe.train.optimizer);
  }
  if (!is_tuned(recipe, "train.schedule.kind")) {
    context.schedule = to_string(recipe.train.schedule.kind);
  }
  if (!is_tuned(recipe, "train.batch_size")) {
    context.batch_size = recipe.train.batch_size;
  }
  if (recipe.train.optimizer == OptimizerKind::sgd &&
      !is_tuned(recipe, "train.momentum")) {
    context.momentum = recipe.train.momentum;
  }
  const auto layers = infer_shapes(
      expand_model(recipe.model, data.image_shape(), data.classes()),
      data.image_shape());
  double width = 0;
  int trained = 0;
  for (const LayerInfo& layer : layers) {
    const bool hidden = layer.kind == LayerKind::conv ||
                        layer.kind == LayerKind::linear ||
                        layer.kind == LayerKind::residual;
    if (!hidden) continue;
    ++trained;
    if (&layer != &layers.back()) {
      width = std::max(width, double(layer.output.channels));
    }
  }
  if (width > 0) context.width = width;
  context.depth = std::max(0, trained - 1);  // the last one gives the classes
}

void tell(const Console& console, const RecordOptions& options,
          const Recording& recording) {
  const RecordedCurves& curves = recording.curves;
  const size_t points = curves.values.size() / curves.epochs.size();
  if (console.json) {
    console.line(json_text(
        nlohmann::ordered_json{
            {"output", options.output},
            {"task", curves.task},
            {"points",
             {curves.log10_lr.size(), curves.log10_l2.size(),
              curves.dropout.size()}},
            {"epochs", curves.epochs},
            {"repeats", std::max<size_t>(1, curves.repeats.size())},
            {"missing", recording.missing},
            {"incomplete", recording.incomplete},
            {"lost", recording.lost},
            {"best", curves.best()},
            {"median_final", curves.median_final()}},
        2));
    return;
  }
  const std::string repeats =
      curves.repeats.empty()
          ? ""
          : fmt::format(" (means of {} trainings each)", curves.repeats.size());
  console.line(fmt::format(
      "wrote {}: {} x {} x {} = {} curves of {} epochs{}, best {:.4f}, median "
      "at the end {:.4f}",
      options.output, curves.log10_lr.size(), curves.log10_l2.size(),
      curves.dropout.size(), points, curves.epochs.size(), repeats,
      curves.best(), curves.median_final()));
  if (recording.missing + recording.incomplete > 0) {
    console.line(fmt::format(
        "  {} have no value at all and {} end early (they diverged or failed): "
        "from there on they count as chance level",
        recording.missing, recording.incomplete));
  }
  if (recording.lost > 0) {
    console.warning(fmt::format(
        "{} trials crashed, were killed or were lost: what their points are "
        "worth is not known, so nothing should be learnt from this file "
        "(remove the study beside it and record again)",
        recording.lost));
  }
}

Recording read_recording(const Console& console, const RecordOptions& options,
                         const fs::path& database) {
  const LoadedStudy loaded = load_study(database, StoreMode::read_only);
  const Study& study = loaded.study;
  if (study.horizon >= kOpenHorizon) {
    throw Error(ErrorKind::config,
                "command.steps: is missing: all curves of a recording have the "
                "same number of steps (write e.g. steps: 20)");
  }
  RecordingOptions recording;
  recording.task = study.recipe.study;
  recording.epochs = parse_epochs(options.epochs, study.horizon);
  describe_training(console, study.recipe, recording);
  return record_curves(study, axes_of_trials(study), recording);
}

int write_recording(const Console& console, const RecordOptions& options,
                    const std::vector<fs::path>& databases) {
  std::vector<Recording> repeats;
  repeats.reserve(databases.size());
  for (const fs::path& database : databases) {
    repeats.push_back(read_recording(console, options, database));
  }
  const Recording made = merge_repeats(std::move(repeats));
  write_curves(options.output, {made.curves});
  tell(console, options, made);
  return kExitOk;
}

int record(const Console& standard, const RecordOptions& options) {
  Console console = standard;
  console.quiet = options.view.quiet;
  if (options.output.empty()) {
    throw Error(ErrorKind::config,
                "dtune record: needs --output (write e.g. --output "
                "curves.npz)");
  }
  refuse_to_replace(options.output);
  if (fs::path(options.output).extension() == ".db") {
    throw Error(
        ErrorKind::config,
        fmt::format("--output {}: a study beside it has that name (write "
                    "e.g. --output curves.npz)",
                    options.output));
  }
  if (is_database(options.sources.front())) {
    return write_recording(console, options,
                           {options.sources.begin(), options.sources.end()});
  }
  if (options.sources.size() > 1) {
    throw Error(ErrorKind::config,
                "dtune record: takes one recipe, or databases of one grid");
  }
  const uint64_t repeats = options.repeats.value_or(1);
  const fs::path path = find_recipe(options.sources.front());
  std::vector<Override> overrides = parse_overrides(options.set);
  if (options.slots) {
    overrides.push_back({"resources.slots", std::to_string(*options.slots)});
  }
  const RecipeFile given = RecipeFile::load(path, overrides);
  const Recipe& recipe = given.recipe();
  if (trains_levels(recipe)) {
    throw given.problem("fidelity",
                        "a recording is of curves over epochs, for which "
                        "'fidelity' must be epochs (remove it)");
  }
  if (recipe.command && recipe.command->steps == 0) {
    throw Error(ErrorKind::config,
                fmt::format("{}: command.steps: is missing: all curves of a "
                            "recording have the same number of steps (write "
                            "e.g. steps: 20)",
                            path.string()));
  }
  // Before anything is trained.
  if (recipe.command) parse_epochs(options.epochs, recipe.command->steps);
  for (Override& one : grid_overrides(recipe, options)) {
    overrides.push_back(std::move(one));
  }
  std::vector<fs::path> databases;
  for (uint64_t repeat = 1; repeat <= repeats; ++repeat) {
    databases.push_back(database_of(options.output, repeat));
    const std::string seed = std::to_string(recipe.seed + repeat - 1);
    if (repeat > 1) overrides.push_back({"seed", seed});
    const RecipeFile file = RecipeFile::load(path, overrides);
    if (!train_grid(console, options, file, path, databases.back())) {
      console.notice("run the same command again to continue");
      return kExitInterrupted;
    }
  }
  return write_recording(console, options, databases);
}

}  // namespace

Action declare_record(Arguments& arguments) {
  auto options = std::make_shared<RecordOptions>();
  arguments.describe(
      "Trains every point of a grid of the recipe's learning rate, L2 and "
      "dropout to the end and writes the curves of its objective as NPZ: what "
      "'dtune simulate' trains in place of a network, and 'dtune surrogate "
      "train' learns from. The grid lies evenly in the recipe's ranges (lr and "
      "l2 in the logarithm). What is trained is kept in a study beside the "
      "output (its name with .db): after an interruption the same command goes "
      "on.\n\nFrom a finished study that was a grid, only writes. A curve that "
      "diverged counts as chance level from there on: one over the number of "
      "classes, 0 for a command. With --repeats the file has each training and "
      "their mean: 'dtune simulate' lets a study see single trainings and "
      "measures regret on the mean.");
  arguments.option("--output", options->output, "FILE",
                   "Where the curves go (.npz).", Complete::file);
  arguments.option("--points", options->points, "N,N,N",
                   "Grid points along lr, l2 and dropout; one number: of each "
                   "(default: 7,6,4).");
  arguments.option("--epochs", options->epochs, "N,N,...",
                   "Steps to write (default: all, or 32 of them).");
  arguments.option("--set", options->set, "KEY=VALUE",
                   "Override a key of the recipe.");
  arguments.option("--slots", options->slots, "N", "Trials at the same time.");
  arguments.option("--repeats", options->repeats, "N",
                   "Trainings of each point, with seeds that follow the "
                   "recipe's (default: 1).",
                   {1, 100});
  declare_progress(arguments, options->view);
  arguments.json("The result as JSON.");
  arguments.example("dtune record recipe.yaml --output curves.npz",
                    "168 trainings, which is what a cube costs");
  arguments.example(
      "dtune record recipe.yaml --output curves.npz --points 13,11,7 --epochs "
      "1,2,4,8,16",
      "a finer grid, five points in time");
  arguments.example("dtune record a.db b.db --output curves.npz",
                    "grids that were trained apart, as repeats");
  arguments.positionals("RECIPE", options->sources,
                        "The recipe, or databases of its grid: repeats.",
                        Complete::recipe);
  return
      [options](const Console& console) { return record(console, *options); };
}

}  // namespace dtune
