#include "dtune/data/summary.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "dtune/data/source_error.h"

namespace dtune {
namespace {

void count_labels(std::span<const int32_t> labels, int64_t ClassCount::*member,
                  std::vector<ClassCount>& classes) {
  for (const int32_t label : labels) ++(classes[size_t(label)].*member);
}

// The only class of the validation split; null where it has none or several.
const ClassCount* only_validation_class(const DataSummary& summary) {
  const auto is_all = [&](const ClassCount& one) {
    return one.validation == summary.validation;
  };
  if (summary.validation == 0) return nullptr;
  const auto found =
      std::find_if(summary.classes.begin(), summary.classes.end(), is_all);
  return found == summary.classes.end() ? nullptr : &*found;
}

bool fewer_train(const ClassCount& a, const ClassCount& b) {
  return a.train < b.train;
}

// Of an accuracy of 0.9 measured on n samples: sqrt(p (1 - p) / n).
double standard_error(int64_t n) { return std::sqrt(0.9 * 0.1 / double(n)); }

bool balances(const Recipe& recipe) {
  const auto& parameters = recipe.space.parameters();
  return recipe.data.balance ||
         std::any_of(parameters.begin(), parameters.end(),
                     [](const auto& one) { return one.key == "data.balance"; });
}

std::string imbalance_warning(const DataSummary& summary,
                              const Recipe& recipe) {
  return fmt::format(
      "classes are unbalanced, {:.1f} to 1: always predicting the largest one "
      "gives a validation accuracy of {:.3f} (tune val_auc{})",
      summary.imbalance, summary.majority_accuracy,
      balances(recipe) ? "" : ", or set data.balance");
}

}  // namespace

DataSummary summarize(const PreparedData& data) {
  DataSummary summary;
  summary.image = data.image_shape();
  summary.train = data.count(Split::train);
  summary.validation = data.count(Split::validation);
  summary.test = data.count(Split::test);
  for (const std::string& name : data.class_names()) {
    summary.classes.push_back({.name = name});
  }
  auto& classes = summary.classes;
  count_labels(data.labels(Split::train), &ClassCount::train, classes);
  count_labels(data.labels(Split::validation), &ClassCount::validation,
               classes);
  count_labels(data.labels(Split::test), &ClassCount::test, classes);
  const auto [least, most] =
      std::minmax_element(classes.begin(), classes.end(), fewer_train);
  summary.imbalance =
      double(most->train) / double(std::max<int64_t>(least->train, 1));
  if (summary.validation > 0) {
    summary.majority_accuracy =
        double(most->validation) / double(summary.validation);
  }
  const auto samples =
      uint64_t(summary.train + summary.validation + summary.test);
  summary.bytes =
      samples * (uint64_t(summary.image.elements()) + sizeof(int32_t));
  return summary;
}

std::string summary_text(const DataSummary& summary) {
  return fmt::format(
      "{} training, {} validation and {} test images of {} in {} classes ({})",
      summary.train, summary.validation, summary.test, to_string(summary.image),
      summary.classes.size(), format_bytes(summary.bytes));
}

std::vector<std::string> data_warnings(const DataSummary& summary,
                                       const Recipe& recipe) {
  constexpr int64_t kFew = 500;
  constexpr double kUnbalanced = 1.5;
  std::vector<std::string> warnings;
  if (summary.validation == 0) {
    warnings.push_back(
        "there is no validation split, so trials cannot be compared (set "
        "data.validation, e.g. to 0.1)");
  } else if (summary.validation < kFew) {
    warnings.push_back(fmt::format(
        "{} validation images measure an accuracy of 0.9 to +-{:.3f} only: "
        "smaller differences between trials are noise (a larger "
        "data.validation helps)",
        summary.validation, standard_error(summary.validation)));
  }
  if (const ClassCount* only = only_validation_class(summary)) {
    warnings.push_back(
        fmt::format("all {} validation images are of class {}: a model that "
                    "always predicts {} gets an accuracy of 1 (give the split "
                    "images of every class)",
                    summary.validation, only->name, only->name));
  }
  if (summary.imbalance >= kUnbalanced &&
      !recipe.objective.metric.ends_with("_auc")) {
    warnings.push_back(imbalance_warning(summary, recipe));
  }
  if (summary.test == 0) {
    warnings.push_back(
        "there is no test split, so the quality of the final model is not "
        "known (set data.test)");
  }
  return warnings;
}

}  // namespace dtune
