#include "app/simulation_worlds.h"

#include <algorithm>
#include <filesystem>

#include "app/study_loader.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/suggest.h"
#include "dtune/base/text.h"
#include "dtune/curves/curves_file.h"
#include "dtune/simulate/cube_world.h"
#include "dtune/simulate/table_world.h"

namespace dtune {
namespace {

Worlds read_study(const std::string& name, const Console& console) {
  const std::filesystem::path database = find_database(name);
  const LoadedStudy loaded = load_study(database, StoreMode::read_only);
  TableFacts facts;
  Worlds worlds;
  worlds.push_back(
      make_table_world(loaded.study, short_path(database), &facts));
  if (facts.ended_early > 0) {
    console.notice(fmt::format(
        "{}: {} of {} trials ended before step {}; simulated further they keep "
        "their last value",
        short_path(database), facts.ended_early, facts.trials,
        worlds.front()->steps()));
  }
  return worlds;
}

std::optional<double>& context_entry(CubeContext& context,
                                     const std::string& name) {
  if (name == "batch_size") return context.batch_size;
  if (name == "width") return context.width;
  if (name == "momentum") return context.momentum;
  if (name == "depth") return context.depth;
  const std::vector<std::string> names = {"batch_size", "width", "momentum",
                                          "depth"};
  throw Error(
      ErrorKind::config,
      fmt::format("dtune simulate: --context: unknown name '{}'{} (one "
                  "of {})",
                  name, did_you_mean(name, names), fmt::join(names, ", ")));
}

// Fills in what is not known.
void complete(CubeContext& context, const CubeContext& said) {
  if (!context.batch_size) context.batch_size = said.batch_size;
  if (!context.width) context.width = said.width;
  if (!context.momentum) context.momentum = said.momentum;
  if (!context.depth) context.depth = said.depth;
}

}  // namespace

CubeContext parse_context(const std::vector<std::string>& words) {
  CubeContext context;
  for (const std::string& word : words) {
    const size_t sign = std::min(word.find('='), word.size());
    const std::string text = word.substr(std::min(sign + 1, word.size()));
    const auto number = parse_number<double>(text);
    if (!number || !(*number >= 0 && *number <= 1e6)) {
      throw Error(ErrorKind::config,
                  fmt::format("dtune simulate: --context: '{}' is not a size "
                              "(NAME=NUMBER, e.g. batch_size=64)",
                              word));
    }
    context_entry(context, word.substr(0, sign)) = *number;
  }
  return context;
}

Worlds read_worlds(const std::string& name, const CubeContext& context,
                   Misleading how, const Console& console) {
  if (std::filesystem::path(name).extension() != ".npz") {
    if (how != Misleading::none) {
      throw Error(ErrorKind::config,
                  fmt::format("dtune simulate: --misleading: '{}' is a study; "
                              "recorded curves (.npz) can mislead",
                              name));
    }
    return read_study(name, console);
  }
  Worlds worlds;
  for (RecordedCurves& curves : read_curves(name)) {
    complete(curves.context, context);
    worlds.push_back(make_cube_world(mislead(std::move(curves), how)));
  }
  return worlds;
}

std::vector<std::string> tasks_of(const Worlds& worlds) {
  std::vector<std::string> tasks;
  for (const auto& world : worlds) {
    if (tasks.empty() || tasks.back() != world->task()) {
      tasks.push_back(world->task());
    }
  }
  return tasks;
}

// Leaves only the tasks that were named.
void choose_tasks(const std::vector<std::string>& wanted, Worlds& worlds) {
  if (wanted.empty()) return;
  const std::vector<std::string> tasks = tasks_of(worlds);
  for (const std::string& task : wanted) {
    if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) {
      throw Error(
          ErrorKind::config,
          fmt::format("dtune simulate: --task: unknown task '{}'{} "
                      "(one of {})",
                      task, did_you_mean(task, tasks), fmt::join(tasks, ", ")));
    }
  }
  std::erase_if(worlds, [&](const auto& world) {
    return std::find(wanted.begin(), wanted.end(), world->task()) ==
           wanted.end();
  });
}

}  // namespace dtune
