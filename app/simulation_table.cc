#include "app/simulation_table.h"

#include <cmath>

#include <fmt/format.h>

#include "dtune/report/table.h"

namespace dtune {
namespace {

std::string name_of(const Contender& contender) {
  return contender.sampler + " + " + contender.scheduler;
}

// ".141": three decimals, without the zero that says nothing.
std::string format_regret(double regret) {
  std::string text = fmt::format("{:.3f}", regret);
  if (text.starts_with("0.")) text.erase(0, 1);
  return text;
}

// One part of the table: a line a contender, a column a budget.
template <typename Cell>
std::string by_budget(const std::vector<ContenderStatistics>& rows,
                      const std::string& heading, const TextStyle& style,
                      Cell cell) {
  std::vector<TableColumn> columns = {{.header = heading, .rank = 0}};
  for (const BudgetStatistics& at : rows.front().budgets) {
    columns.push_back({.header = std::to_string(at.budget), .right = true});
  }
  std::vector<TableRow> lines;
  for (const ContenderStatistics& row : rows) {
    TableRow line = {{name_of(row.contender)}};
    for (const BudgetStatistics& at : row.budgets) line.push_back({cell(at)});
    lines.push_back(std::move(line));
  }
  std::string text;
  for (const std::string& line : render_table(columns, lines, style)) {
    text += line + "\n";
  }
  return text + "\n";
}

// "+.031", "-.004".
std::string format_difference(double difference) {
  return (difference < 0 ? "-" : "+") + format_regret(std::abs(difference));
}

// What the others' regret is beside the first one's.
std::string differences(const std::vector<ContenderStatistics>& rows,
                        const TextStyle& style) {
  if (rows.size() < 2) return "";
  const std::vector<ContenderStatistics> others(rows.begin() + 1, rows.end());
  return by_budget(others, "less " + name_of(rows.front().contender), style,
                   [](const BudgetStatistics& at) {
                     return format_difference(at.difference);
                   }) +
         by_budget(others, "90% interval", style,
                   [](const BudgetStatistics& at) {
                     return format_difference(at.difference_low) + " " +
                            format_difference(at.difference_high);
                   });
}

std::string percent(int64_t part, int64_t whole) {
  if (whole == 0) return "";
  return fmt::format("{:.1f}%", 100.0 * double(part) / double(whole));
}

std::string totals(const std::vector<ContenderStatistics>& rows,
                   const TextStyle& style) {
  const std::vector<TableColumn> columns = {
      {.header = "a study"},
      {.header = "trials", .right = true},
      {.header = "cuts", .right = true},
      {.header = "would have won", .right = true},
      {.header = "in 90% band", .right = true},
      {.header = "seconds", .right = true}};
  std::vector<TableRow> lines;
  for (const ContenderStatistics& row : rows) {
    const std::string cuts =
        row.cuts == 0 ? "" : fmt::format("{:.1f}", double(row.cuts) / row.runs);
    lines.push_back({{name_of(row.contender)},
                     {fmt::format("{:.1f}", row.trials)},
                     {cuts},
                     {percent(row.cuts_wrong, row.cuts)},
                     {percent(row.coverage.inside, row.coverage.predictions)},
                     {fmt::format("{:.3f}", row.seconds)}});
  }
  std::string text;
  for (const std::string& line : render_table(columns, lines, style)) {
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string simulation_table(const std::vector<ContenderStatistics>& rows,
                             const std::string& unit, const TextStyle& style) {
  return by_budget(rows, "mean regret, " + unit, style,
                   [](const BudgetStatistics& at) {
                     return format_regret(at.mean);
                   }) +
         by_budget(rows, "90% interval", style,
                   [](const BudgetStatistics& at) {
                     return format_regret(at.low) + "-" +
                            format_regret(at.high);
                   }) +
         by_budget(rows, "median regret", style,
                   [](const BudgetStatistics& at) {
                     return format_regret(at.median);
                   }) +
         differences(rows, style) +
         by_budget(rows, "mean rank", style,
                   [](const BudgetStatistics& at) {
                     return fmt::format("{:.2f}", at.rank);
                   }) +
         totals(rows, style);
}

}  // namespace dtune
