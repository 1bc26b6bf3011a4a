#include "dtune/config/expect_section.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

struct Bound {
  Comparison comparison;
  double value;
};

// ">= 0.90"
std::optional<Bound> parse_bound(const std::string& text) {
  // Longer ones first: "<=" begins with "<".
  constexpr Comparison kInOrder[] = {Comparison::less_equal,
                                     Comparison::greater_equal,
                                     Comparison::less, Comparison::greater};
  const std::string whole(trim(text));
  for (const Comparison comparison : kInOrder) {
    const std::string sign = to_string(comparison);
    if (!whole.starts_with(sign)) continue;
    const Value value = scalar_value(YamlNode::scalar(
        std::string(trim(std::string_view(whole).substr(sign.size())))));
    const auto number = as_number(value);
    const bool numeric = number && !std::holds_alternative<bool>(value);
    if (numeric) return Bound{comparison, *number};
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Expectation> read_expectations(
    const YamlNode* node, const std::string& section,
    const std::vector<std::string>& metrics, Diagnostics& diagnostics) {
  std::vector<Expectation> expectations;
  if (node == nullptr || node->is_null()) return expectations;
  if (!node->is_map()) {
    diagnostics.add(node->mark, fmt::format("'{}' must be a section such as "
                                            "val_accuracy: \">= 0.90\", but is "
                                            "{}",
                                            section, describe_node(*node)));
    return expectations;
  }
  const auto read = [&](const YamlNode& entry, const YamlNode& item) {
    const auto bound = item.is_scalar() ? parse_bound(item.text) : std::nullopt;
    if (!bound) {
      diagnostics.add(item.mark,
                      fmt::format("'{}.{}' must be a comparison such as "
                                  "\">= 0.90\", but is {}",
                                  section, entry.key, describe_node(item)));
      return;
    }
    expectations.push_back({.metric = entry.key,
                            .comparison = bound->comparison,
                            .bound = bound->value,
                            .text = item.text,
                            .where = diagnostics.sources().where(item.mark)});
  };
  for (const YamlNode& entry : node->items) {
    if (!metrics.empty() &&
        std::find(metrics.begin(), metrics.end(), entry.key) == metrics.end()) {
      diagnostics.add(entry.key_mark,
                      fmt::format("unknown metric '{}'{}", entry.key,
                                  did_you_mean(entry.key, metrics)));
    }
    if (!entry.is_list()) read(entry, entry);
    if (!entry.is_list()) continue;
    for (const YamlNode& item : entry.items) read(entry, item);
  }
  return expectations;
}

void write_expectations(YamlNode& recipe, const std::string& section,
                        const std::vector<Expectation>& expectations) {
  if (expectations.empty()) return;
  YamlNode metrics = YamlNode::map();
  for (const Expectation& one : expectations) {
    YamlNode& list = metrics.entry(one.metric);
    list.kind = YamlNode::Kind::list;
    list.items.push_back(YamlNode::word(one.text));
  }
  recipe.entry(section).set_value(metrics);
}

}  // namespace dtune
