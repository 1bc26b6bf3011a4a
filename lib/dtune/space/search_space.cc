#include "dtune/space/search_space.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/random.h"
#include "dtune/base/suggest.h"
#include "dtune/space/axis.h"
#include "dtune/space/expression.h"

namespace dtune {
namespace {

constexpr uint64_t kMaxCardinality = uint64_t{1} << 53;

ValueType type_of(const Parameter& parameter) {
  if (parameter.kind != ParameterKind::categorical) return ValueType::number;
  const auto is_word = [](const Value& value) { return !as_number(value); };
  const auto words = std::count_if(parameter.choices.begin(),
                                   parameter.choices.end(), is_word);
  if (words == 0) return ValueType::number;
  return size_t(words) == parameter.choices.size() ? ValueType::word
                                                   : ValueType::mixed;
}

// Parses and checks the names and types of an expression over `parameters`.
std::shared_ptr<const Expression> parse_over(
    const std::vector<Parameter>& parameters, const std::string& text) {
  auto expression = Expression::parse(text);
  expression->check_types([&](const std::string& name) {
    std::vector<std::string> known;
    for (const Parameter& parameter : parameters) {
      if (parameter.name == name) return type_of(parameter);
      known.push_back(parameter.name);
    }
    // "weight-decay" without back quotes reads as weight minus decay.
    for (const std::string& whole : known) {
      if (whole.starts_with(name + "-") &&
          text.find(whole) != std::string::npos) {
        throw Error(ErrorKind::config,
                    fmt::format("unknown parameter '{}' (put '{}' in back "
                                "quotes: it has a minus)",
                                name, whole));
      }
    }
    throw Error(ErrorKind::config,
                fmt::format("unknown parameter '{}'{} (quote it if it is a "
                            "word)",
                            name, did_you_mean(name, known)));
  });
  return expression;
}

bool has_all(const std::vector<std::string>& names, const Point& point) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return point.contains(name);
  });
}

}  // namespace

const char* to_string(ParameterRole role) {
  constexpr const char* kWords[] = {"none", "learning_rate", "l2", "dropout"};
  return kWords[static_cast<size_t>(role)];
}

SearchSpace::SearchSpace(std::vector<Parameter> parameters,
                         std::vector<std::string> constraints)
    : parameters_(std::move(parameters)),
      conditions_(parameters_.size()),
      constraint_texts_(std::move(constraints)) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check_parameter(parameters_[i]);
    if (*find(parameters_[i].name) != i) {
      throw Error(ErrorKind::config,
                  fmt::format("space.{}: occurs twice (remove one, or rename "
                              "it and set its key)",
                              parameters_[i].name));
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) parse_condition(i);
  sort_by_dependence();
  for (const std::string& text : constraint_texts_) parse_constraint(text);
}

void SearchSpace::parse_condition(size_t index) {
  const Parameter& parameter = parameters_[index];
  if (parameter.when.empty()) return;
  try {
    conditions_[index] = parse_over(parameters_, parameter.when);
  } catch (const Error& error) {
    throw Error(ErrorKind::config, fmt::format("space.{}: when: {}",
                                               parameter.name, error.what()));
  }
}

void SearchSpace::parse_constraint(const std::string& text) {
  try {
    constraints_.push_back(parse_over(parameters_, text));
  } catch (const Error& error) {
    throw Error(
        ErrorKind::config,
        fmt::format("constraints[{}]: {}", constraints_.size(), error.what()));
  }
  if (constraints_.back()->names().empty()) {
    throw Error(ErrorKind::config,
                fmt::format("constraints[{}]: '{}' reads no parameter (remove "
                            "it, or name one)",
                            constraints_.size() - 1, text));
  }
}

// Repeatedly takes the parameters whose conditions read only taken ones; the
// order given is kept among those that are free at the same time.
void SearchSpace::sort_by_dependence() {
  Point taken;  // only its names matter
  while (order_.size() < parameters_.size()) {
    const size_t before = order_.size();
    std::string stuck;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::string& name = parameters_[i].name;
      if (taken.contains(name)) continue;
      if (conditions_[i] && !has_all(conditions_[i]->names(), taken)) {
        stuck += (stuck.empty() ? "" : ", ") + name;
        continue;
      }
      taken.emplace(name, true);
      order_.push_back(i);
    }
    if (order_.size() == before) {
      throw Error(
          ErrorKind::config,
          fmt::format(
              "space.{}: when: the conditions of {} form a cycle (remove one)",
              stuck.substr(0, stuck.find(',')), stuck));
    }
  }
}

std::optional<size_t> SearchSpace::find(const std::string& name) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return i;
  }
  return std::nullopt;
}

bool SearchSpace::active(size_t index, const Point& so_far) const {
  const auto& condition = conditions_[index];
  return !condition ||
         (has_all(condition->names(), so_far) && condition->holds(so_far));
}

std::vector<double> SearchSpace::encode(const Point& point) const {
  std::vector<double> unit(parameters_.size(), 0.5);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto found = point.find(parameters_[i].name);
    if (found == point.end()) continue;
    unit[i] = encode_value(parameters_[i], found->second);
  }
  return unit;
}

Point SearchSpace::decode(std::span<const double> unit) const {
  DTUNE_CHECK(unit.size() == parameters_.size());
  Point point;
  for (const size_t i : order_) {
    if (!active(i, point)) continue;
    const double u = std::clamp(unit[i], 0.0, 1.0);
    point.emplace(parameters_[i].name, decode_value(parameters_[i], u));
  }
  return point;
}

bool SearchSpace::satisfies(const Point& point) const {
  return std::all_of(
      constraints_.begin(), constraints_.end(), [&](const auto& constraint) {
        return !has_all(constraint->names(), point) || constraint->holds(point);
      });
}

std::string SearchSpace::reason_value_invalid(size_t index,
                                              const Point& point) const {
  const Parameter& parameter = parameters_[index];
  const bool needed = active(index, point);
  const auto found = point.find(parameter.name);
  if (found == point.end()) {
    return needed ? fmt::format("space.{}: has no value", parameter.name) : "";
  }
  if (!needed) {
    return fmt::format("space.{}: has a value, but '{}' does not hold",
                       parameter.name, parameter.when);
  }
  const std::string reason = dtune::reason_invalid(parameter, found->second);
  return reason.empty() ? ""
                        : fmt::format("space.{}: {}", parameter.name, reason);
}

std::string SearchSpace::reason_invalid(const Point& point) const {
  for (const auto& [name, value] : point) {
    if (find(name)) continue;
    std::vector<std::string> known;
    for (const Parameter& p : parameters_) known.push_back(p.name);
    return fmt::format("space.{}: is not a parameter of this space{}", name,
                       did_you_mean(name, known));
  }
  // In the order of dependence: a condition may read only sound values.
  for (const size_t i : order_) {
    std::string reason = reason_value_invalid(i, point);
    if (!reason.empty()) return reason;
  }
  for (size_t i = 0; i < constraints_.size(); ++i) {
    if (!has_all(constraints_[i]->names(), point)) continue;
    if (!constraints_[i]->holds(point)) {
      return fmt::format("constraints[{}]: '{}' does not hold", i,
                         constraint_texts_[i]);
    }
  }
  return "";
}

std::optional<uint64_t> SearchSpace::cardinality() const {
  uint64_t product = 1;
  for (const Parameter& parameter : parameters_) {
    const std::optional<uint64_t> count = value_count(parameter);
    if (!count) return std::nullopt;
    product =
        *count > kMaxCardinality / product ? kMaxCardinality : product * *count;
  }
  return product;
}

void SearchSpace::check_satisfiable(int tries) const {
  if (constraints_.empty()) return;
  Rng rng(mix_seed({hash_text("check_satisfiable")}));
  std::vector<bool> ever_held(constraints_.size());
  for (int i = 0; i < tries; ++i) {
    std::vector<double> unit(parameters_.size());
    for (double& u : unit) u = rng.uniform();
    const Point point = decode(unit);
    if (satisfies(point)) return;
    for (size_t k = 0; k < constraints_.size(); ++k) {
      if (!has_all(constraints_[k]->names(), point) ||
          constraints_[k]->holds(point)) {
        ever_held[k] = true;
      }
    }
  }
  std::string guilty;
  const bool together =
      std::find(ever_held.begin(), ever_held.end(), false) == ever_held.end();
  for (size_t k = 0; k < constraints_.size(); ++k) {
    if (ever_held[k] && !together) continue;
    guilty +=
        fmt::format("{}'{}'", guilty.empty() ? "" : ", ", constraint_texts_[k]);
  }
  throw Error(
      ErrorKind::config,
      fmt::format("constraints: no point among {} satisfies {}{} "
                  "(loosen it, or the ranges)",
                  tries, guilty,
                  together && constraints_.size() > 1 ? " together" : ""));
}

}  // namespace dtune
