#include "app/plan.h"

#include <cmath>

#include "app/study_files.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/clock.h"
#include "dtune/base/json.h"
#include "dtune/tuner/learnt_part.h"

namespace dtune {
namespace {

using nlohmann::ordered_json;

int64_t sum_parameters(const std::vector<LayerInfo>& layers) {
  int64_t sum = 0;
  for (const LayerInfo& layer : layers) sum += layer.parameters;
  return sum;
}

// "1.23 G", with a decimal prefix.
std::string with_prefix(double number) {
  for (const char* prefix : {"", "k", "M", "G", "T", "P"}) {
    if (number < 1000) return fmt::format("{:.3g} {}", number, prefix);
    number /= 1000;
  }
  return fmt::format("{:.3g} E", number);
}

std::string range_text(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::boolean:
      return "true or false";
    case ParameterKind::categorical: {
      std::string text;
      for (const Value& choice : parameter.choices) {
        text += (text.empty() ? "" : ", ") + to_string(choice);
      }
      return text;
    }
    case ParameterKind::integer:
    case ParameterKind::real:
      break;
  }
  std::string text = fmt::format("{:g} to {:g}", parameter.low, parameter.high);
  if (parameter.log) text += ", logarithmic";
  if (parameter.kind == ParameterKind::integer) text += ", whole";
  if (parameter.quantum > 0) {
    text += fmt::format(", in steps of {:g}", parameter.quantum);
  }
  return text;
}

std::vector<std::string> time_texts(const StudyPlan& plan) {
  if (!plan.step_time) {
    return {plan.recipe.command
                ? "not known before the program has run in a trial"
                : fmt::format("not known yet: {} trains for some seconds to "
                              "tell",
                              quoted_command("dtune plan " +
                                             shell_quoted(plan.recipe_path) +
                                             " --measure"))};
  }
  const StudyTime time = study_time(plan.recipe, plan.check, *plan.step_time);
  std::vector<std::string> lines = {fmt::format("{} for one full training ({})",
                                                format_seconds(time.training),
                                                plan.step_time->source)};
  if (time.search) {
    lines.push_back(
        fmt::format("at most {} for the search, {} trial{} at a time",
                    format_seconds(*time.search), time.at_once,
                    time.at_once == 1 ? "" : "s"));
  }
  if (time.final_training > 0) {
    lines.push_back(fmt::format("{} for the final training",
                                format_seconds(time.final_training)));
  }
  return lines;
}

class PlanPrinter {
 public:
  PlanPrinter(const StudyPlan& plan, const TextStyle& style)
      : plan_(plan), style_(style) {}

  std::string print() {
    line("study",
         fmt::format("{} ({})", plan_.recipe.study, plan_.recipe_path));
    if (plan_.recipe.command) {
      command();
    } else {
      data();
      model();
      training();
    }
    space();
    objective();
    search();
    line("slots", slots());
    devices();
    for (const std::string& text : time_texts(plan_)) line("time", text);
    line("database", fmt::format("{} ({})", short_path(plan_.database),
                                 printable(plan_.what_run_does)));
    for (const Expectation& expectation : plan_.recipe.expect) {
      line("expects", printable(expectation.metric + " " + expectation.text));
    }
    return std::move(text_);
  }

 private:
  // A heading on the first of its lines.
  void line(const std::string& heading, const std::string& what) {
    const bool repeated = heading == heading_;
    heading_ = heading;
    const std::string shown = pad_right(repeated ? "" : heading, 11);
    text_ += paint(style_, Color::bold, shown) + what + '\n';
  }

  void command() {
    std::string words;
    for (const std::string& word : plan_.recipe.command->argv) {
      words += (words.empty() ? "" : " ") + shell_quoted(printable(word));
    }
    line("command", words);
  }

  void data() {
    const DataPlan& data = plan_.check.data;
    line("data",
         fmt::format("{}: {} training, {} validation, {} test images "
                     "of {}, {} classes",
                     to_string(plan_.recipe.data.kind),
                     format_count(data.training), format_count(data.validation),
                     format_count(data.test), to_string(data.image),
                     data.classes));
    line("data", "from " + printable(data.source));
    for (const std::string& note : data.notes) line("note", printable(note));
  }

  void model() {
    const bool own = !plan_.recipe.model.layers.empty();
    line("model",
         fmt::format("{}: {} parameters, {}FLOP to train on an image",
                     own ? "layers of the recipe" : plan_.recipe.model.arch,
                     format_count(sum_parameters(plan_.check.layers)),
                     with_prefix(double(training_flops(plan_.check.layers)))));
    for (const LayerInfo& layer : plan_.check.layers) {
      line("model",
           fmt::format(
               "  {:<14} {:<16} {:>10} {:>14}", layer.name,
               to_string(layer.kind), to_string(layer.output),
               layer.parameters == 0 ? "" : format_count(layer.parameters)));
    }
  }

  void training() {
    const TrainSpec& train = plan_.recipe.train;
    line("training",
         fmt::format("{:g} epochs of {} images, {} steps, batches of {}, {}",
                     train.epochs, format_count(plan_.check.data.training),
                     plan_.check.horizon, train.batch_size,
                     to_string(train.optimizer)));
    const bool levels = trains_levels(plan_.recipe);
    if (levels) line("training", level_text());
    const double passes =
        train.epochs * (levels ? share_until(plan_.recipe, plan_.check.horizon,
                                             plan_.check.horizon)
                               : 1);
    line("training",
         fmt::format("{}FLOP for one full training",
                     with_prefix(double(training_flops(plan_.check.layers)) *
                                 passes * double(plan_.check.data.training))));
  }

  // "each step from the start, on 500, 1,000, 2,000, 4,000 images".
  std::string level_text() const {
    std::string counts;
    for (int step = 1; step <= plan_.check.horizon; ++step) {
      const double share = step_share(plan_.recipe, step, plan_.check.horizon);
      counts +=
          (counts.empty() ? "" : ", ") +
          format_count(std::llround(share * double(plan_.check.data.training)));
    }
    return fmt::format("each step from the start, on {} images", counts);
  }

  void space() {
    for (const Parameter& parameter : plan_.recipe.space.parameters()) {
      std::string what = fmt::format("{:<16} {}", printable(parameter.name),
                                     printable(range_text(parameter)));
      if (!parameter.when.empty())
        what += "  when " + printable(parameter.when);
      if (parameter.prior) {
        what += "  prior " + printable(to_string(*parameter.prior));
      }
      line("space", what);
    }
    for (const std::string& text : plan_.recipe.space.constraint_texts()) {
      line("space", "subject to " + printable(text));
    }
  }

  void objective() {
    const ObjectiveSpec& objective = plan_.recipe.objective;
    line("goal", fmt::format("{} {}", to_string(objective.goal),
                             printable(objective.metric)));
    for (const TradeOff& other : objective.trade_offs) {
      line("trade-off", fmt::format("{} {}", to_string(other.goal),
                                    printable(other.metric)));
    }
    for (const Expectation& bound : objective.require) {
      line("require", printable(bound.metric + " " + bound.text));
    }
  }

  void search() {
    const Recipe& recipe = plan_.recipe;
    line("sampler", recipe.sampler.kind);
    const std::string unlearnt = why_unlearnt(recipe);
    if (!unlearnt.empty()) {
      line("sampler", "the learnt prior takes no part: " + unlearnt);
    }
    line("scheduler", recipe.scheduler.kind);
    for (const std::string& text : plan_.check.schedule)
      line("scheduler", text);
    for (const std::string& old : plan_.check.warm_start) {
      line("warm start", printable(old));
    }
    const size_t points = recipe.points.size();
    if (points > 0) {
      line("points", fmt::format("{} given point{} tried first", points,
                                 points == 1 ? " is" : "s are"));
    }
    line("budget", budget());
  }

  std::string budget() const {
    const BudgetSpec& budget = plan_.recipe.budget;
    std::string text;
    const auto add = [&text](const std::string& limit) {
      text += (text.empty() ? "" : ", ") + limit;
    };
    if (budget.trials > 0) add(fmt::format("{} trials", budget.trials));
    if (budget.time.count() > 0) add(format_duration(budget.time));
    if (budget.steps > 0) add(fmt::format("{} steps", budget.steps));
    if (text.empty()) return "no limit: stop it with Ctrl-C";
    return text.find(',') == std::string::npos
               ? text
               : text + ", whichever comes first";
  }

  std::string slots() const {
    const SlotPlan& slots = plan_.check.slots;
    const ParallelSpec& parallel = plan_.recipe.parallel;
    if (parallel.mode != ParallelMode::none) return gangs(slots, parallel);
    const int trials = slots.slots * slots.fused;
    const std::string fused =
        slots.fused == 1
            ? ""
            : fmt::format(" ({} slot{}, {} fused in each)", slots.slots,
                          slots.slots == 1 ? "" : "s", slots.fused);
    return fmt::format("{} trial{} at a time{}, {} thread{} each", trials,
                       trials == 1 ? "" : "s", fused, slots.threads,
                       slots.threads == 1 ? "" : "s");
  }

  void devices() {
    const SlotPlan& slots = plan_.check.slots;
    for (size_t i = 0; i < slots.gpus.size(); ++i) {
      line("slots", fmt::format("{} on {}", slots_of_gpu(slots, i),
                                printable(to_string(slots.gpus[i]))));
    }
    if (!slots.why_cpu.empty()) {
      line("slots", "on the CPU: " + printable(slots.why_cpu));
    }
  }

  // "slots 0, 2".
  static std::string slots_of_gpu(const SlotPlan& plan, size_t gpu) {
    std::vector<size_t> slots;
    for (size_t slot = gpu; slot < static_cast<size_t>(plan.slots);
         slot += plan.gpus.size()) {
      slots.push_back(slot);
    }
    if (slots.empty()) return "no slot";
    return fmt::format("slot{} {}", slots.size() == 1 ? "" : "s",
                       fmt::join(slots, ", "));
  }

  static std::string gangs(const SlotPlan& slots,
                           const ParallelSpec& parallel) {
    const int members = gang_members(parallel);
    std::string how = to_string(parallel.mode);
    if (parallel.mode == ParallelMode::data) {
      how += fmt::format("-parallel, {}", to_string(parallel.sync));
    } else if (parallel.mode == ParallelMode::model) {
      how +=
          fmt::format("-parallel, {}", to_string(parallel.pipeline.schedule));
    } else {
      how += fmt::format(": {} pipelines of {} stages", parallel.data,
                         parallel.model);
    }
    return fmt::format("{} here; a trial takes {} ({})", slots.slots, members,
                       how);
  }

  const StudyPlan& plan_;
  const TextStyle& style_;
  std::string text_;
  std::string heading_;
};

ordered_json time_json(const StudyPlan& plan) {
  const StudyTime time = study_time(plan.recipe, plan.check, *plan.step_time);
  ordered_json object = {{"source", plan.step_time->source},
                         {"step_seconds", plan.step_time->seconds},
                         {"training_seconds", time.training}};
  if (time.search) object["search_seconds_at_most"] = *time.search;
  object["final_seconds"] = time.final_training;
  return object;
}

ordered_json value_json(const Value& value) {
  return std::visit([](const auto& held) { return ordered_json(held); }, value);
}

ordered_json parameter_json(const Parameter& parameter) {
  ordered_json object = {{"name", parameter.name}, {"key", parameter.key}};
  if (parameter.kind == ParameterKind::boolean) {
    object["choices"] = {false, true};
  } else if (parameter.kind == ParameterKind::categorical) {
    object["choices"] = ordered_json::array();
    for (const Value& choice : parameter.choices) {
      object["choices"].push_back(value_json(choice));
    }
  } else {
    object["low"] = parameter.low;
    object["high"] = parameter.high;
    object["log"] = parameter.log;
    object["integer"] = parameter.kind == ParameterKind::integer;
  }
  if (!parameter.when.empty()) object["when"] = parameter.when;
  return object;
}

ordered_json model_json(const StudyPlan& plan) {
  ordered_json layers = ordered_json::array();
  for (const LayerInfo& layer : plan.check.layers) {
    layers.push_back({{"name", layer.name},
                      {"kind", to_string(layer.kind)},
                      {"output", to_string(layer.output)},
                      {"parameters", layer.parameters},
                      {"flops", layer.flops}});
  }
  return {{"parameters", sum_parameters(plan.check.layers)},
          {"training_flops", training_flops(plan.check.layers)},
          {"layers", layers}};
}

}  // namespace

int64_t training_flops(const std::vector<LayerInfo>& layers) {
  int64_t forward = 0;
  for (const LayerInfo& layer : layers) forward += layer.flops;
  return 3 * forward;
}

std::string plan_text(const StudyPlan& plan, const TextStyle& style) {
  return PlanPrinter(plan, style).print();
}

std::string plan_json(const StudyPlan& plan) {
  ordered_json document = {{"study", plan.recipe.study},
                           {"recipe", plan.recipe_path},
                           {"database", plan.database.string()},
                           {"database_exists", plan.database_exists},
                           {"run", plan.what_run_does},
                           {"horizon", plan.check.horizon}};
  if (!plan.recipe.command) {
    document["data"] = {{"kind", to_string(plan.recipe.data.kind)},
                        {"source", plan.check.data.source},
                        {"image", to_string(plan.check.data.image)},
                        {"classes", plan.check.data.classes},
                        {"training", plan.check.data.training},
                        {"validation", plan.check.data.validation},
                        {"test", plan.check.data.test},
                        {"notes", plan.check.data.notes}};
    document["model"] = model_json(plan);
  }
  document["space"] = ordered_json::array();
  for (const Parameter& parameter : plan.recipe.space.parameters()) {
    document["space"].push_back(parameter_json(parameter));
  }
  const BudgetSpec& budget = plan.recipe.budget;
  document["sampler"] = plan.recipe.sampler.kind;
  const std::string unlearnt = why_unlearnt(plan.recipe);
  document["without_learnt_prior"] =
      unlearnt.empty() ? ordered_json() : ordered_json(unlearnt);
  document["scheduler"] = plan.recipe.scheduler.kind;
  document["schedule"] = plan.check.schedule;
  document["points"] = plan.recipe.points.size();
  document["budget"] = {{"trials", budget.trials},
                        {"seconds", to_seconds(budget.time)},
                        {"steps", budget.steps}};
  document["slots"] = {{"slots", plan.check.slots.slots},
                       {"fused", plan.check.slots.fused},
                       {"threads", plan.check.slots.threads},
                       {"devices", plan.check.slots.devices()}};
  if (!plan.check.warm_start.empty()) {
    document["warm_start"] = plan.check.warm_start;
  }
  document["warnings"] = warning_lines(plan.check.warnings);
  if (plan.step_time) document["time"] = time_json(plan);
  return json_text(document, 2) + '\n';
}

}  // namespace dtune
