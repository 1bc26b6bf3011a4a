// What a prepared data set holds, counted, for `plan`, reports and people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dtune/data/prepared.h"
#include "dtune/study/recipe.h"

namespace dtune {

struct ClassCount {
  std::string name;
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;
};

struct DataSummary {
  Shape image;
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;
  std::vector<ClassCount> classes;
  // Training samples of the largest class for one of the smallest, >= 1.
  double imbalance = 1;
  // Validation accuracy of always naming the most frequent training class: a
  // model that does no better has learnt nothing. 0 without validation samples.
  double majority_accuracy = 0;
  uint64_t bytes = 0;  // of all images and labels
};

// Reads all labels, no image.
DataSummary summarize(const PreparedData& data);

// "54000 training, 6000 validation and 10000 test images of 1x28x28 in 10
// classes (52.4 MiB)".
std::string summary_text(const DataSummary& summary);

// What a user should know before spending hours: no or few validation samples
// (with the standard error that follows) or of one class, unbalanced classes
// (what a constant answer scores, and the remedies that the recipe does not
// take yet; nothing where it tunes an area under the ROC curve), no test split.
// Whole sentences; often none.
std::vector<std::string> data_warnings(const DataSummary& summary,
                                       const Recipe& recipe);

}  // namespace dtune
