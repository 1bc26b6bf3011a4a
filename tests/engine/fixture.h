// A small data set and recipes for it, and a runner as workers get it: from the
// private library.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtune/base/file.h"
#include "dtune/data/prepared.h"
#include "dtune/train/plugin.h"

namespace dtune {

// 400 training samples of 12 x 12, 4 classes; easy enough to be learnt in a
// second.
inline DataSpec small_data() {
  DataSpec data;
  data.kind = DataKind::synthetic;
  data.classes = 4;
  data.samples = 500;
  data.height = 12;
  data.width = 12;
  data.difficulty = 0.2;
  data.validation = 0.2;
  return data;
}

inline Recipe small_recipe() {
  Recipe recipe;
  recipe.data = small_data();
  recipe.model.arch = "cnn-small";
  recipe.model.width = 4;
  recipe.model.dropout = 0.2;
  recipe.train.epochs = 4;
  recipe.train.batch_size = 32;
  recipe.train.lr = 0.05;
  recipe.train.device = "cpu";
  return recipe;
}

// A folder with the data prepared once, where trials leave their files.
class Workshop {
 public:
  Workshop() : Workshop(small_data()) {}
  explicit Workshop(const DataSpec& data)
      : prepared_(prepare_data(data, folder_.path() / "cache")),
        runner_(load_engine().make_runner(1)) {}

  std::filesystem::path path(const std::string& name) const {
    return folder_.path() / name;
  }

  TrialAssignment assignment(const Recipe& recipe = small_recipe()) const {
    TrialAssignment assignment;
    assignment.study_id = "study-1";
    assignment.trial = 3;
    assignment.attempt = 1;
    assignment.recipe = recipe;
    assignment.seed = 11;
    assignment.horizon = 4;
    assignment.prepared_data = prepared_;
    assignment.checkpoint = path("trial-3.safetensors");
    assignment.model_file = path("model.safetensors");
    assignment.recipe_yaml = "study: small\n";
    return assignment;
  }

  std::unique_ptr<TrialSession> start(const TrialAssignment& assignment) {
    return runner_->start(assignment);
  }

  // Trains `steps` more; returns the last report.
  static StepReport run(TrialSession& session, int steps) {
    const std::atomic<bool> stop = false;
    StepReport report;
    for (int i = 0; i < steps; ++i) report = session.run_step(stop);
    return report;
  }

 private:
  TemporaryDirectory folder_;
  std::filesystem::path prepared_;
  std::unique_ptr<TrialRunner> runner_;
};

}  // namespace dtune
