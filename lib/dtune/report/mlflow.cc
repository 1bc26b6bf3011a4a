#include "dtune/report/mlflow.h"

#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/base/random.h"
#include "dtune/report/output_folder.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// JSON's texts are YAML's. Quoted always: an id of digits alone would be read
// as a number, and the run would vanish.
std::string yaml_text(const std::string& text) { return ascii_json(text); }

// A name as a file's: MLflow refuses other signs, and a path must not be left.
std::string file_name(const std::string& name) {
  std::string safe;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       c == '_' || c == '-' || c == ' ';
    safe += plain || (c == '.' && !safe.empty()) ? c : '_';
  }
  return safe.empty() ? "_" : safe;
}

// RunStatus: running 1, finished 3, failed 4, killed 5.
int run_status(const Trial& trial) {
  switch (trial.state) {
    case TrialState::complete:
      return 3;
    case TrialState::paused:
    case TrialState::cut:
      return 5;
    case TrialState::waiting:
    case TrialState::running:
      return 1;
    default:
      return 4;
  }
}

std::string run_meta(const Trial& trial, const std::string& id,
                     const std::string& experiment, const fs::path& folder) {
  const int64_t start =
      trial.started_ms > 0 ? trial.started_ms : trial.created_ms;
  return fmt::format(
      "artifact_uri: {}\nend_time: {}\nentry_point_name: ''\n"
      "experiment_id: {}\nlifecycle_stage: active\nrun_id: {}\n"
      "run_name: {}\nrun_uuid: {}\nsource_name: ''\nsource_type: 4\n"
      "source_version: ''\nstart_time: {}\nstatus: {}\ntags: []\n"
      "user_id: dtune\n",
      yaml_text("file://" + (folder / "artifacts").string()),
      run_status(trial) == 1 ? "null" : std::to_string(trial.ended_ms),
      yaml_text(experiment), yaml_text(id),
      yaml_text(fmt::format("trial {}", trial.id)), yaml_text(id), start,
      run_status(trial));
}

// "1700000000000 0.91 3": time, value, step.
std::map<std::string, std::string> metric_files(const Trial& trial) {
  std::map<std::string, std::string> files;
  double wall_ms = double(trial.started_ms);
  for (const StepReport& report : trial.curve) {
    wall_ms += 1000 * report.seconds;
    for (const auto& [name, value] : report.metrics) {
      files[file_name(name)] +=
          fmt::format("{} {} {}\n", int64_t(wall_ms), value, report.step);
    }
  }
  return files;
}

void write_run(const Study& study, const Trial& trial, bool best,
               const std::string& experiment, const fs::path& folder) {
  const std::string key = fmt::format("{} {}", study.id, trial.id);
  const std::string id =
      fmt::format("{:016x}{:016x}", hash_text(key), hash_text(key + " run"));
  const fs::path own = folder / id;
  for (const char* part : {"params", "metrics", "tags", "artifacts"}) {
    make_output_folder(own / part);
  }
  const auto put = [&](const char* part, const std::string& name,
                       const std::string& text) {
    write_file_atomic(own / part / file_name(name), text, false);
  };
  for (const auto& [name, value] : trial.point) {
    put("params", name, to_string(value));
  }
  for (const auto& [name, text] : metric_files(trial)) {
    put("metrics", name, text);
  }
  put("tags", "mlflow.runName", fmt::format("trial {}", trial.id));
  put("tags", "dtune.state", to_string(trial.state));
  put("tags", "dtune.why",
      fmt::format("{}: {}", to_string(trial.reason), trial.detail));
  put("tags", "dtune.best", best ? "true" : "false");
  // Last: MLflow ignores a run without it.
  write_file_atomic(own / "meta.yaml", run_meta(trial, id, experiment, own),
                    false);
}

}  // namespace

void write_mlflow(const Study& study, const StudyFacts& facts,
                  const fs::path& folder) {
  const std::string experiment =
      std::to_string(hash_text(study.id) % 1'000'000'000'000'000);
  const fs::path own = fs::absolute(folder) / experiment;
  make_output_folder(own);
  write_file_atomic(
      own / "meta.yaml",
      fmt::format("artifact_location: {}\ncreation_time: {}\n"
                  "experiment_id: {}\nlast_update_time: {}\n"
                  "lifecycle_stage: active\nname: {}\n",
                  yaml_text("file://" + own.string()), study.created_ms,
                  yaml_text(experiment), study.created_ms,
                  yaml_text(study.recipe.study)),
      false);
  const Trial* best = chosen_trial(study, facts);
  for (const Trial& trial : study.trials) {
    write_run(study, trial, &trial == best, experiment, own);
  }
}

}  // namespace dtune
