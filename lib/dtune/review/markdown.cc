#include "dtune/review/markdown.h"

#include <algorithm>

#include <fmt/format.h>

#include "dtune/review/findings.h"

namespace dtune {
namespace {

constexpr size_t kMostProblems = 3;

// Text for a cell of a table: signs of Markdown and HTML become entities.
std::string cell_text(const std::string& text) {
  constexpr std::string_view kSigns = "&<>|`*_[]\\";
  std::string safe;
  for (const char c : printable(text)) {
    if (kSigns.find(c) == std::string_view::npos) {
      safe += c;
    } else {
      safe += fmt::format("&#{};", static_cast<int>(c));
    }
  }
  return safe;
}

std::string table_line(const std::string& label, const std::string& cell) {
  return fmt::format("| {} | {} |\n", label, cell);
}

std::string best_line(const Study& study, const StudyFacts& facts) {
  const ObjectiveSpec& objective = study.recipe.objective;
  const Trial* best = chosen_trial(study, facts);
  if (best == nullptr) {
    return table_line("best", "none: " + cell_text(why_no_best(study)));
  }
  const StepReport& report = *best_report(objective, *best);
  const double value =
      metric_of(objective, *objective_value(objective, report));
  return table_line(
             "best",
             fmt::format("**{} {}** (trial {}, step {})",
                         cell_text(objective.metric), format_metric(value),
                         best->id, format_step(report.step, study.horizon))) +
         table_line("point", cell_text(describe_point(study, best->point)));
}

std::string model_lines(const Study& study, const StudyFacts& facts) {
  const FinalResult* model = shipped_model(study, facts);
  if (model == nullptr || model->metrics.empty()) return "";
  std::string metrics;
  for (const auto& [name, value] : model->metrics) {
    if (!metrics.empty()) metrics += ", ";
    metrics += cell_text(name) + " " + format_metric(value);
  }
  return table_line("model", metrics);
}

std::string expectation_lines(const std::vector<ExpectationResult>& results) {
  std::string lines;
  for (const ExpectationResult& result : results) {
    const bool passed = result.outcome == ExpectationOutcome::passed;
    lines +=
        table_line(passed ? "ok" : "**failed**", cell_text(result.message));
  }
  return lines;
}

std::string problem_lines(const Study& study, const StudyFacts& facts) {
  std::vector<StudyProblem> problems = find_problems(study, facts);
  problems.resize(std::min(problems.size(), kMostProblems));
  std::string lines;
  for (const StudyProblem& problem : problems) {
    lines +=
        table_line("careful", cell_text(problem.what + " " + problem.remedy));
  }
  return lines;
}

// What a value of a workflow command may not hold as it is.
std::string command_text(const std::string& text, bool property) {
  std::string safe;
  for (const char c : text) {
    const bool hidden = c == '%' || c == '\n' || c == '\r' ||
                        (property && (c == ':' || c == ','));
    safe += hidden ? fmt::format("%{:02X}", static_cast<int>(c))
                   : std::string(1, c);
  }
  return safe;
}

// "recipe.yaml:14:3" as the properties of an annotation.
std::string place_of_annotation(const std::string& where) {
  const size_t last = where.rfind(':');
  const size_t middle = last == std::string::npos || last == 0
                            ? std::string::npos
                            : where.rfind(':', last - 1);
  if (middle == std::string::npos) return "";
  return fmt::format(
      "file={},line={},col={},", command_text(where.substr(0, middle), true),
      command_text(where.substr(middle + 1, last - middle - 1), true),
      command_text(where.substr(last + 1), true));
}

}  // namespace

std::string summary_markdown(const Study& study, const StudyFacts& facts,
                             const std::vector<ExpectationResult>& results) {
  return fmt::format("### {}: {} after {} of searching\n\n| | |\n|---|---|\n",
                     cell_text(study.recipe.study), to_string(study.state),
                     format_seconds(study.searched_seconds)) +
         best_line(study, facts) + model_lines(study, facts) +
         table_line("search", cell_text(describe_states(study))) +
         expectation_lines(results) + problem_lines(study, facts) +
         fmt::format("\nNext: <code>{}</code>\n",
                     cell_text(next_command(study, facts)));
}

std::string github_annotations(const std::vector<ExpectationResult>& results) {
  std::string lines;
  for (const ExpectationResult& result : results) {
    if (result.outcome == ExpectationOutcome::passed) continue;
    lines += fmt::format("::error {}title=expectation {}::{}\n",
                         place_of_annotation(result.expectation.where),
                         to_string(result.outcome),
                         command_text(result.message, false));
  }
  return lines;
}

}  // namespace dtune
