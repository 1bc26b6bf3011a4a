// Trials, their curves and the parameters of the page's data.
#include <functional>
#include <limits>
#include <optional>

#include "dtune/review/importance.h"
#include "dtune/review/page_parts.h"
#include "dtune/space/axis.h"

namespace dtune {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

void write_value(const Value& value, PageJson& json) {
  if (const bool* flag = std::get_if<bool>(&value)) return json.flag(*flag);
  if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    return json.integer(*integer);
  }
  if (const double* real = std::get_if<double>(&value)) {
    return json.number(*real);
  }
  json.text(std::get<std::string>(value));
}

const char* kind_of(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::real:
      return "real";
    case ParameterKind::integer:
      return "integer";
    case ParameterKind::boolean:
    case ParameterKind::categorical:
      break;
  }
  return "choice";
}

void write_parameters(const SearchSpace& space, PageJson& json) {
  json.key("parameters");
  json.begin_array();
  for (const Parameter& parameter : space.parameters()) {
    json.begin_object();
    json.text("name", parameter.name);
    json.text("kind", kind_of(parameter));
    json.flag("log", parameter.log);
    json.number("low", parameter.low);
    json.number("high", parameter.high);
    json.key("choices");
    json.begin_array();
    if (parameter.kind == ParameterKind::boolean) {
      json.flag(false);
      json.flag(true);
    }
    for (const Value& choice : parameter.choices) write_value(choice, json);
    json.end_array();
    json.end_object();
  }
  json.end_array();
}

// Words for states and reasons, in the order of their numbers.
template <class Word>
void write_words(const char* name, Word last, PageJson& json) {
  json.key(name);
  json.begin_array();
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    json.text(to_string(static_cast<Word>(i)));
  }
  json.end_array();
}

using WriteOne = std::function<void(const Trial&)>;

void write_column(const char* name, const Study& study, PageJson& json,
                  const WriteOne& write) {
  if (*name != '\0') json.key(name);
  json.begin_array();
  for (const Trial& trial : study.trials) write(trial);
  json.end_array();
}

double seconds_of(const Trial& trial) {
  double seconds = 0;
  for (const StepReport& report : trial.curve) seconds += report.seconds;
  return seconds;
}

void write_values(const Study& study, PageJson& json) {
  json.key("values");
  json.begin_array();
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    write_column("", study, json, [&](const Trial& trial) {
      const auto value = trial.point.find(parameter.name);
      if (value == trial.point.end()) return json.null();
      write_value(value->second, json);
    });
  }
  json.end_array();
  json.key("units");
  json.begin_array();
  for (const Parameter& parameter : study.recipe.space.parameters()) {
    write_column("", study, json, [&](const Trial& trial) {
      const auto value = trial.point.find(parameter.name);
      const bool fits = value != trial.point.end() &&
                        reason_invalid(parameter, value->second).empty();
      json.number(fits ? encode_value(parameter, value->second) : kNoNumber);
    });
  }
  json.end_array();
}

void write_columns(const Study& study, PageJson& json) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const auto column = [&](const char* name, const WriteOne& write) {
    write_column(name, study, json, write);
  };
  const auto metric = [&](std::optional<double> value) {
    json.number(value ? metric_of(objective, *value) : kNoNumber);
  };
  column("final", [&](const Trial& t) {
    json.integer(t.kind == TrialKind::final ? 1 : 0);
  });
  column("state",
         [&](const Trial& t) { json.integer(static_cast<int>(t.state)); });
  column("reason",
         [&](const Trial& t) { json.integer(static_cast<int>(t.reason)); });
  column("detail", [&](const Trial& t) { json.text(t.detail); });
  column("best", [&](const Trial& t) { metric(best_value(objective, t)); });
  column("best_step", [&](const Trial& t) {
    const StepReport* report = best_report(objective, t);
    json.integer(report == nullptr ? 0 : report->step);
  });
  column("last", [&](const Trial& t) { metric(last_value(objective, t)); });
  column("steps", [&](const Trial& t) { json.integer(t.steps()); });
  column("seconds", [&](const Trial& t) { json.number(seconds_of(t)); });
  column("node", [&](const Trial& t) { json.text(t.node); });
  column("slot", [&](const Trial& t) { json.integer(t.slot); });
  write_values(study, json);
}

void write_curves(const Study& study, PageJson& json) {
  const ObjectiveSpec& objective = study.recipe.objective;
  write_column("curves", study, json, [&](const Trial& trial) {
    json.begin_array();
    for (const StepReport& report : trial.curve) {
      const auto value = objective_value(objective, report);
      json.integer(report.step);
      json.number(value ? metric_of(objective, *value) : kNoNumber);
    }
    json.end_array();
  });
}

void write_effect(const ObjectiveSpec& objective,
                  const ParameterImportance& parameter, PageJson& json) {
  json.begin_object();
  json.text("name", parameter.name);
  json.number("share", parameter.share);
  json.number("deviation", parameter.deviation);
  json.key("best");
  if (parameter.best) {
    write_value(*parameter.best, json);
  } else {
    json.null();
  }
  json.key("effect");
  json.begin_array();
  for (const Spread& spread : parameter.effect) {
    json.begin_array();
    json.number(metric_of(objective, spread.mean));
    json.number(spread.deviation);
    json.end_array();
  }
  json.end_array();
  json.end_object();
}

void write_pair(const ObjectiveSpec& objective, const PairEffect& pair,
                PageJson& json) {
  json.begin_object();
  json.text("first", pair.first);
  json.text("second", pair.second);
  json.key("values");
  json.begin_array();
  for (const double value : pair.values) {
    json.number(metric_of(objective, value));
  }
  json.end_array();
  json.end_object();
}

}  // namespace

void write_trials(const ReportedStudy& reported, PageJson& json) {
  const Study& study = *reported.study;
  write_parameters(study.recipe.space, json);
  json.key("words");
  json.begin_object();
  write_words("states", TrialState::invalid, json);
  write_words("reasons", Reason::scheduled, json);
  json.end_object();
  json.key("trials");
  json.begin_object();
  write_columns(study, json);
  json.end_object();
  write_curves(study, json);
}

void write_importance(const ReportedStudy& reported, PageJson& json) {
  const ObjectiveSpec& objective = reported.study->recipe.objective;
  const auto importance = parameter_importance(*reported.study);
  json.key("importance");
  if (!importance) return json.null();
  json.begin_object();
  json.integer("trials", static_cast<int64_t>(importance->trials));
  json.integer("failures", static_cast<int64_t>(importance->failures));
  json.number("together", importance->together);
  json.key("parameters");
  json.begin_array();
  for (const ParameterImportance& parameter : importance->parameters) {
    write_effect(objective, parameter, json);
  }
  json.end_array();
  json.key("pairs");
  json.begin_array();
  for (const PairEffect& pair : importance->pairs) {
    write_pair(objective, pair, json);
  }
  json.end_array();
  json.end_object();
}

}  // namespace dtune
